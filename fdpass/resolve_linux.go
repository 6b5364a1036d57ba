package fdpass

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// lookupTimeout bounds the look-up of one host name. A start or a reload must
// not hang on a name server.
const lookupTimeout = 5 * time.Second

// A target is one address to bind, and whether IPv4 stays out of it.
type target struct {
	addr   netip.AddrPort
	v6only bool
}

// targets returns what to bind for an internet socket, the best first; a later
// one is for where the kernel does not know the family of the one before. It
// looks up host names, and blocks for that long.
func (s Spec) targets() ([]target, error) {
	h, err := s.hostPort()
	if err != nil {
		return nil, err
	}
	if h.name != "" {
		ip, err := lookup(h.name, s.Network)
		if err != nil {
			return nil, err
		}
		h.ip = ip
	}
	at := func(ip netip.Addr, v6only bool) target {
		return target{netip.AddrPortFrom(ip, h.port), v6only}
	}
	switch v4only := s.Network == TCP4 || s.Network == UDP4; {
	case h.ip.IsValid():
		return []target{at(h.ip, s.v6only() && h.ip.Is6())}, nil
	case v4only:
		return []target{at(netip.IPv4Unspecified(), false)}, nil
	case s.v6only():
		return []target{at(netip.IPv6Unspecified(), true)}, nil
	default:
		return []target{at(netip.IPv6Unspecified(), false), at(netip.IPv4Unspecified(), false)}, nil
	}
}

// A lookupError is a host name that has no address.
type lookupError struct {
	name string
	err  error
}

func (e *lookupError) Error() string { return fmt.Sprintf("look up %s: %v", e.name, e.err) }
func (e *lookupError) Unwrap() error { return e.err }

// lookup returns the first address of a host name that the network can use,
// IPv4 before IPv6.
func lookup(name, network string) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	family := "ip"
	switch network {
	case TCP4, UDP4:
		family = "ip4"
	case TCP6, UDP6:
		family = "ip6"
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, family, name)
	if err != nil {
		return netip.Addr{}, &lookupError{name, err}
	}
	var first netip.Addr
	for _, ip := range found {
		ip = ip.Unmap()
		if !first.IsValid() || ip.Is4() && !first.Is4() {
			first = ip
		}
	}
	if !first.IsValid() {
		return netip.Addr{}, &lookupError{name, fmt.Errorf("it has no %s address", family)}
	}
	return first, nil
}

// sockaddr returns the kernel's form of the address and its family.
func (t target) sockaddr() (unix.Sockaddr, int, error) {
	ip := t.addr.Addr()
	if ip.Is4() {
		return &unix.SockaddrInet4{Port: int(t.addr.Port()), Addr: ip.As4()}, unix.AF_INET, nil
	}
	zone, err := zoneID(ip.Zone())
	if err != nil {
		return nil, 0, err
	}
	return &unix.SockaddrInet6{Port: int(t.addr.Port()), Addr: ip.As16(), ZoneId: zone}, unix.AF_INET6, nil
}

// zoneID returns the index of the interface that a zone names, by name or by
// number.
func zoneID(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	iface, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, &optionError{"zone", zone, unix.ENODEV}
	}
	return uint32(iface.Index), nil
}
