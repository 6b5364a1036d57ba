package fdpass

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// An endpoint is what the kernel says about a bound socket.
type endpoint struct {
	family  int
	network string // of a spec; TCP6 and UDP6 are those that keep IPv4 out
	address string // of a spec
}

// addr returns the endpoint as a spec.
func (e endpoint) addr() string { return Spec{Network: e.network, Address: e.address}.address() }

// addrPort returns the address of an internet socket.
func (e endpoint) addrPort() (netip.AddrPort, error) { return netip.ParseAddrPort(e.address) }

// listens reports whether it takes connections rather than datagrams.
func (e endpoint) listens() bool { return Spec{Network: e.network}.listens() }

// tcp reports whether it is a TCP socket.
func (e endpoint) tcp() bool { return Spec{Network: e.network}.tcp() }

// udp reports whether it is a UDP socket.
func (e endpoint) udp() bool { return Spec{Network: e.network}.udp() }

// inspect asks the kernel about the socket raw, which is borrowed. The error
// says in words what cannot be used about it.
func inspect(raw int) (endpoint, error) {
	var e endpoint
	var kind, protocol, listening int
	for _, q := range []struct {
		name   string
		opt    int
		answer *int
	}{
		{"SO_DOMAIN", unix.SO_DOMAIN, &e.family},
		{"SO_TYPE", unix.SO_TYPE, &kind},
		{"SO_PROTOCOL", unix.SO_PROTOCOL, &protocol},
		{"SO_ACCEPTCONN", unix.SO_ACCEPTCONN, &listening},
	} {
		n, err := unix.GetsockoptInt(raw, unix.SOL_SOCKET, q.opt)
		if err != nil {
			return e, os.NewSyscallError("getsockopt "+q.name, err)
		}
		*q.answer = n
	}
	network, ok := networkOf(e.family, kind, protocol)
	if !ok {
		return e, fmt.Errorf("it is neither a tcp, a udp nor a unix socket (family %d, type %d, protocol %d)", e.family, kind, protocol)
	}
	e.network = network
	if e.listens() && listening == 0 {
		return e, errors.New("it does not listen; a .socket unit with Accept=yes passes in single connections")
	}
	sa, err := unix.Getsockname(raw)
	if err != nil {
		return e, os.NewSyscallError("getsockname", err)
	}
	// On any other IPv6 address the flag means nothing, and bind(2) sets it.
	if in6, ok := sa.(*unix.SockaddrInet6); ok && in6.Addr == [16]byte{} {
		only, err := unix.GetsockoptInt(raw, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
		if err != nil {
			return e, os.NewSyscallError("getsockopt IPV6_V6ONLY", err)
		}
		if only != 0 {
			e.network += "6"
		}
	}
	e.address = addressOf(sa)
	if e.address == "" {
		return e, errors.New("it has no address")
	}
	return e, nil
}

// networkOf returns the network of a spec for a kind of socket, without the 4
// or 6.
func networkOf(family, kind, protocol int) (string, bool) {
	switch family {
	case unix.AF_INET, unix.AF_INET6:
		switch {
		case kind == unix.SOCK_STREAM && (protocol == unix.IPPROTO_TCP || protocol == unix.IPPROTO_MPTCP):
			return TCP, true
		case kind == unix.SOCK_DGRAM && protocol == unix.IPPROTO_UDP:
			return UDP, true
		}
	case unix.AF_UNIX:
		switch kind {
		case unix.SOCK_STREAM:
			return Unix, true
		case unix.SOCK_DGRAM:
			return UnixGram, true
		case unix.SOCK_SEQPACKET:
			return UnixPacket, true
		}
	}
	return "", false
}

// addressOf returns the Address of a spec for what getsockname(2) says.
func addressOf(sa unix.Sockaddr) string {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)).String()
	case *unix.SockaddrInet6:
		ip := netip.AddrFrom16(sa.Addr)
		if sa.ZoneId != 0 {
			zone := strconv.FormatUint(uint64(sa.ZoneId), 10)
			if iface, err := net.InterfaceByIndex(int(sa.ZoneId)); err == nil {
				zone = iface.Name
			}
			ip = ip.WithZone(zone)
		}
		return netip.AddrPortFrom(ip, uint16(sa.Port)).String()
	case *unix.SockaddrUnix:
		return sa.Name
	}
	return ""
}
