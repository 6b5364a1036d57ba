package fdpass

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// A hostPort is the address of an internet socket, taken apart.
type hostPort struct {
	ip   netip.Addr // a literal address, with its zone
	name string     // a host name, where ip is not valid
	port uint16
	// Neither ip nor name: every address of the machine.
}

// wildcard reports whether the host was left out.
func (h hostPort) wildcard() bool { return !h.ip.IsValid() && h.name == "" }

// hostPort takes s.Address apart and checks that it fits s.Network.
func (s Spec) hostPort() (hostPort, error) {
	host, port, err := splitHostPort(s.Address)
	if err != nil {
		return hostPort{}, err
	}
	h := hostPort{}
	if h.port, err = parsePort(port); err != nil {
		return hostPort{}, err
	}
	if host == "" {
		return h, nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		if strings.HasPrefix(s.Address, "[") {
			return hostPort{}, fmt.Errorf("%q is not an IPv6 address", host)
		}
		h.name = strings.ToLower(host)
		return h, checkHostName(host)
	}
	h.ip = ip
	return h, s.checkFamily(ip)
}

func splitHostPort(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	var bad *net.AddrError
	switch {
	case err == nil:
		return host, port, nil
	case !errors.As(err, &bad):
		return "", "", err
	case strings.Count(address, ":") > 1 && !strings.Contains(address, "["):
		return "", "", fmt.Errorf("%q: an IPv6 address goes in brackets, as in [::1]:8080", address)
	case !strings.Contains(address, ":"), strings.HasSuffix(address, "]"):
		return "", "", fmt.Errorf("%q has no port; write HOST:PORT, or :PORT for every address of the machine", address)
	default:
		return "", "", fmt.Errorf("%q is not HOST:PORT", address)
	}
}

func parsePort(text string) (uint16, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || !isNumber(text) {
		return 0, fmt.Errorf("port %q is not a number from 0 to 65535", text)
	}
	return uint16(port), nil
}

// isNumber reports whether text is made of digits alone, which leaves out the
// signs that strconv takes.
func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// checkHostName says what is wrong with a name that is to be looked up.
func checkHostName(name string) error {
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
		default:
			return fmt.Errorf("%q is neither an address nor a host name", name)
		}
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if len(name) > 253 || last == "" || isNumber(last) {
		return fmt.Errorf("%q is neither an address nor a host name", name)
	}
	return nil
}

// checkFamily says why a literal address does not fit the network.
func (s Spec) checkFamily(ip netip.Addr) error {
	v4only := s.Network == TCP4 || s.Network == UDP4
	v6only := s.Network == TCP6 || s.Network == UDP6
	switch {
	case ip.Is4In6():
		return fmt.Errorf("write the IPv4 address %s as %s", ip, ip.Unmap())
	case v4only && !ip.Is4():
		return fmt.Errorf("%s is not an IPv4 address; use %s:// or %s6://", ip, s.transport(), s.transport())
	case v6only && ip.Is4():
		return fmt.Errorf("%s is not an IPv6 address; use %s:// or %s4://", ip, s.transport(), s.transport())
	case strings.ContainsFunc(ip.Zone(), func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/:[]?%", r) }):
		return fmt.Errorf("%q is not the name of a network interface", ip.Zone())
	case ip.Is6() && ip.IsLinkLocalUnicast() && ip.Zone() == "" && s.Device == "":
		return fmt.Errorf("the link-local address %s needs its network interface: [%s%%eth0]", ip, ip)
	}
	return nil
}

// key returns the address in the one form that stands for all ways to write it
// with the given network.
func (h hostPort) key(network string) string {
	switch v4only := network == TCP4 || network == UDP4; {
	case h.name != "":
		// What the name will be on this network is not known yet.
		return network + " " + h.name + ":" + strconv.Itoa(int(h.port))
	case h.wildcard() && v4only:
		h.ip = netip.IPv4Unspecified()
	case h.wildcard():
		h.ip = netip.IPv6Unspecified()
	}
	return netip.AddrPortFrom(h.ip, h.port).String()
}

// families returns which of the two families, with which address in each, the
// address occupies on its port. A zero Addr stands for none.
func (h hostPort) families(s Spec) (v4, v6 netip.Addr) {
	v4only := s.Network == TCP4 || s.Network == UDP4
	switch {
	case h.ip.Is4():
		return h.ip, v6
	case h.ip.IsValid() && !h.ip.IsUnspecified():
		return v4, h.ip
	case h.name != "":
		return v4, v6
	case v4only:
		return netip.IPv4Unspecified(), v6
	case s.v6only():
		return v4, netip.IPv6Unspecified()
	default:
		return netip.IPv4Unspecified(), netip.IPv6Unspecified()
	}
}
