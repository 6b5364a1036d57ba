package fdpass

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// farthest is a time to live that a packet has only if it came over no router
// and from a machine that begins with the highest one there is.
const farthest = 255

// openSink keeps new connections away from a TCP socket where a filter may not
// be attached to it. The sink, which the caller owns, is one more listener on the
// same address in one SO_REUSEPORT group with it, and the last one. A program on
// the group, which needs no privilege, has to give every SYN to the sink, and the
// sink drops them without an answer because of their time to live (IP_MINTTL in
// ip(7); the same for IPv6). Handshakes under way and the queue stay where they
// are.
//
// It lasts until the sink is closed. Clients with a time to live of 255 reach
// the sink's queue instead, and are reset with it.
func openSink(s Spec, e endpoint) (sink *FD, err error) {
	if s.ReusePort {
		// There may be others in the group, whose connections are not ours to take.
		return nil, errors.New("the socket shares its address (reuseport)")
	}
	addr, err := e.addrPort()
	if err != nil {
		return nil, err
	}
	t := target{addr, e.network == TCP6}
	sa, family, err := t.sockaddr()
	if err != nil {
		return nil, err
	}
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
	if err := unix.Bind(sink.Raw(), sa); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	return sink, s.listen(sink.Raw())
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
