package fdpass

import (
	"errors"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// farthest is a time to live that a packet has only if it came over no router
// and from a machine that begins with the highest one there is.
const farthest = 255

// openSink keeps new connections away from the listening TCP socket raw, which
// is borrowed, where a filter may not be attached to it. The sink, which the
// caller owns, is a second listener on the same address in one SO_REUSEPORT
// group with it. A program on the group, which needs no privilege, gives every
// SYN to the sink, and the sink drops them without an answer because of their
// time to live (IP_MINTTL in ip(7); the same for IPv6). Handshakes under way
// and the queue stay with the first socket.
//
// It lasts until the sink is closed. Clients with a time to live of 255 reach
// the sink's queue instead, and are reset with it.
func (sh *shared) openSink(raw int) (sink *FD, err error) {
	if sh.spec.ReusePort {
		// There may be others in the group, whose connections are not ours to take.
		return nil, errors.New("the socket shares its address (reuseport)")
	}
	addr, err := netip.ParseAddrPort(sh.endpoint.address)
	if err != nil {
		return nil, err
	}
	t := target{addr, sh.endpoint.network == TCP6}
	sa, family, err := t.sockaddr()
	if err != nil {
		return nil, err
	}
	s := sh.spec
	s.ReusePort, s.NonBlocking = true, true
	s.DeferAccept, s.FastOpen, s.Backlog = 0, 0, 1
	sink, err = s.newSocket(family)
	if err != nil {
		return nil, err
	}
	defer closeOnError(sink, &err)
	if err := s.setOptions(sink.Raw(), t); err != nil {
		return nil, err
	}
	if err := dropAll(sink.Raw(), family); err != nil {
		return nil, err
	}
	// A socket that listens already can still be made the first of a group.
	if err := (sockopt{"reuseport", "SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, 1}).set(raw); err != nil {
		return nil, err
	}
	if err := unix.Bind(sink.Raw(), sa); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	if err := s.listen(sink.Raw()); err != nil {
		return nil, err
	}
	second := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1}
	err = unix.SetsockoptSockFprog(raw, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &unix.SockFprog{Len: 1, Filter: &second})
	return sink, os.NewSyscallError("setsockopt SO_ATTACH_REUSEPORT_CBPF", err)
}

// dropAll makes the listening socket raw, which is borrowed, ignore every packet
// that did not come from next door.
func dropAll(raw, family int) error {
	// On an IPv6 socket this is for the IPv4 packets that it gets.
	if err := (sockopt{"", "IP_MINTTL", unix.IPPROTO_IP, unix.IP_MINTTL, farthest}).set(raw); err != nil {
		return err
	}
	if family == unix.AF_INET {
		return nil
	}
	return sockopt{"", "IPV6_MINHOPCOUNT", unix.IPPROTO_IPV6, unix.IPV6_MINHOPCOUNT, farthest}.set(raw)
}
