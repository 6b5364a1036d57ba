package fdpass

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// likeness returns s with the options of the TCP socket raw, which is borrowed
// and which somebody else has made: a socket that is opened from it is like that
// one. at is where raw is.
func likeness(s Spec, raw int, at endpoint) (Spec, error) {
	s.Network, s.Address = at.network, at.address
	freeBind, transparent := sockopt{name: "IP_FREEBIND", level: unix.IPPROTO_IP, opt: unix.IP_FREEBIND}, sockopt{name: "IP_TRANSPARENT", level: unix.IPPROTO_IP, opt: unix.IP_TRANSPARENT}
	if at.family == unix.AF_INET6 {
		freeBind = sockopt{name: "IPV6_FREEBIND", level: unix.IPPROTO_IPV6, opt: unix.IPV6_FREEBIND}
		transparent = sockopt{name: "IPV6_TRANSPARENT", level: unix.IPPROTO_IPV6, opt: unix.IPV6_TRANSPARENT}
	}
	var deferAccept int
	for _, o := range []struct {
		sockopt
		take func(int)
	}{
		{freeBind, func(n int) { s.FreeBind = n != 0 }},
		{transparent, func(n int) { s.Transparent = n != 0 }},
		{sockopt{name: "SO_MARK", level: unix.SOL_SOCKET, opt: unix.SO_MARK}, func(n int) { s.Mark = uint32(n) }},
		{sockopt{name: "TCP_DEFER_ACCEPT", level: unix.IPPROTO_TCP, opt: unix.TCP_DEFER_ACCEPT}, func(n int) { deferAccept = n }},
		{sockopt{name: "TCP_FASTOPEN", level: unix.IPPROTO_TCP, opt: unix.TCP_FASTOPEN}, func(n int) { s.FastOpen = n }},
	} {
		n, err := unix.GetsockoptInt(raw, o.level, o.opt)
		if err != nil {
			return s, os.NewSyscallError("getsockopt "+o.name, err)
		}
		o.take(n)
	}
	s.DeferAccept = time.Duration(deferAccept) * time.Second
	var err error
	if s.Device, err = unix.GetsockoptString(raw, unix.SOL_SOCKET, unix.SO_BINDTODEVICE); err != nil {
		return s, os.NewSyscallError("getsockopt SO_BINDTODEVICE", err)
	}
	flags, err := unix.FcntlInt(uintptr(raw), unix.F_GETFL, 0)
	if err != nil {
		return s, os.NewSyscallError("fcntl F_GETFL", err)
	}
	s.NonBlocking = flags&unix.O_NONBLOCK != 0
	if s.Backlog == 0 {
		if _, s.Backlog, err = tcpQueue(raw); err != nil {
			return s, err
		}
	}
	return s, nil
}
