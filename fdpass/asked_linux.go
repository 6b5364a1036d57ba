package fdpass

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// errNoAddress is what is wrong with a call of bind(2) that asks for no address that
// a Socket can have.
var errNoAddress = errors.New("it is no address of a tcp, udp or unix socket")

// MaxSockaddr is how many bytes of an address bind(2) reads at most, see
// sockaddr_storage in socket(7).
const MaxSockaddr = 128

// AskedOf returns what is asked for by bind(2) with this address, in the kernel's form,
// on a socket. raw is a descriptor of that, which is borrowed. locate returns where this
// process finds a path of the one that asks, which is relative to that one's root or
// working directory.
func AskedOf(raw int, sockaddr []byte, locate func(path string) string) (Asked, error) {
	kind := make([]int, 3)
	for i, option := range []int{unix.SO_DOMAIN, unix.SO_TYPE, unix.SO_PROTOCOL} {
		var err error
		if kind[i], err = unix.GetsockoptInt(raw, unix.SOL_SOCKET, option); err != nil {
			return Asked{}, os.NewSyscallError("getsockopt", err)
		}
	}
	network, ok := networkOf(kind[0], kind[1], kind[2])
	if !ok {
		return Asked{}, errNoAddress
	}
	only := 0
	if kind[0] == unix.AF_INET6 {
		var err error
		if only, err = unix.GetsockoptInt(raw, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY); err != nil {
			return Asked{}, os.NewSyscallError("getsockopt IPV6_V6ONLY", err)
		}
	}
	return decodeAsked(kind[0], network, only != 0, sockaddr, locate)
}

// decodeAsked reads an address, for a socket of this family and network, without the 6.
func decodeAsked(family int, network string, v6only bool, sockaddr []byte, locate func(string) string) (Asked, error) {
	if len(sockaddr) < 2 || len(sockaddr) > MaxSockaddr || int(binary.NativeEndian.Uint16(sockaddr)) != family {
		return Asked{}, errNoAddress
	}
	a, rest := Asked{network: network}, sockaddr[2:]
	switch {
	case family == unix.AF_UNIX:
		var path bool
		if a.path, path = decodePath(rest); a.path == "" {
			return Asked{}, errNoAddress // the kernel is asked to choose a name
		}
		if path {
			a.path = locate(a.path)
		}
		return a, nil
	case family == unix.AF_INET && len(rest) >= 6:
		ip := netip.AddrFrom4([4]byte(rest[2:6]))
		a.ip = netip.AddrPortFrom(ip, binary.BigEndian.Uint16(rest))
		return a, nil
	case family == unix.AF_INET6 && len(rest) >= 22:
		ip := netip.AddrFrom16([16]byte(rest[6:22]))
		if len(rest) >= 26 && (ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast()) { // of others the kernel ignores it
			ip = zoned(ip, binary.NativeEndian.Uint32(rest[22:]))
		}
		if ip.IsUnspecified() && v6only {
			a.network += "6"
		}
		port := binary.BigEndian.Uint16(rest)
		// This is how Java, for one, binds an IPv4 address. With port 0 it is how Go's net sees
		// whether that can be done.
		if !v6only && port != 0 {
			ip = ip.Unmap()
		}
		a.ip = netip.AddrPortFrom(ip, port)
		return a, nil
	}
	return Asked{}, errNoAddress
}

// decodePath reads sun_path, see unix(7), and reports whether it is a path and not an
// abstract name.
func decodePath(b []byte) (address string, path bool) {
	if len(b) > 0 && b[0] == 0 {
		if len(b) == 1 {
			return "", false
		}
		return "@" + string(b[1:]), false
	}
	for i, c := range b {
		if c == 0 {
			b = b[:i]
			break
		}
	}
	return string(b), true
}

// zoned returns the address with the number of an interface as its zone; 0 stands for
// none.
func zoned(ip netip.Addr, id uint32) netip.Addr {
	if id == 0 {
		return ip.WithZone("")
	}
	return ip.WithZone(strconv.FormatUint(uint64(id), 10))
}
