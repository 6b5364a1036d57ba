package fdpass

import (
	"log/slog"
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
	if err := s.takeBuffers(raw); err != nil {
		return s, err
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

// Flags of SO_BUF_LOCK, from net/sock.h: which buffers were given a size.
const (
	bufLockSend = 1
	bufLockRecv = 2
)

// takeBuffers takes the sizes of those buffers of the socket raw, which is
// borrowed, that were given one. The others grow by themselves, and must go on
// doing so. Before Linux 5.14 the kernel does not tell.
func (s *Spec) takeBuffers(raw int) error {
	locked, err := unix.GetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_BUF_LOCK)
	if err == unix.ENOPROTOOPT {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("getsockopt SO_BUF_LOCK", err)
	}
	for _, b := range []struct {
		flag, opt int
		size      *int
	}{
		{bufLockRecv, unix.SO_RCVBUF, &s.ReceiveBuffer},
		{bufLockSend, unix.SO_SNDBUF, &s.SendBuffer},
	} {
		if locked&b.flag == 0 {
			continue
		}
		size, err := unix.GetsockoptInt(raw, unix.SOL_SOCKET, b.opt)
		if err != nil {
			return os.NewSyscallError("getsockopt of a buffer", err)
		}
		*b.size = size / 2 // see setBuffers
	}
	return nil
}

// inherited are options that connections have from their listener, that a .socket
// unit can set, and that a Spec knows nothing of.
var inherited = []sockopt{
	{name: "SO_KEEPALIVE", level: unix.SOL_SOCKET, opt: unix.SO_KEEPALIVE},
	{name: "TCP_KEEPIDLE", level: unix.IPPROTO_TCP, opt: unix.TCP_KEEPIDLE},
	{name: "TCP_KEEPINTVL", level: unix.IPPROTO_TCP, opt: unix.TCP_KEEPINTVL},
	{name: "TCP_KEEPCNT", level: unix.IPPROTO_TCP, opt: unix.TCP_KEEPCNT},
	{name: "TCP_NODELAY", level: unix.IPPROTO_TCP, opt: unix.TCP_NODELAY},
	{name: "IP_TOS", level: unix.IPPROTO_IP, opt: unix.IP_TOS},
	{name: "IP_TTL", level: unix.IPPROTO_IP, opt: unix.IP_TTL},
	{name: "IPV6_TCLASS", level: unix.IPPROTO_IPV6, opt: unix.IPV6_TCLASS},
	{name: "IPV6_UNICAST_HOPS", level: unix.IPPROTO_IPV6, opt: unix.IPV6_UNICAST_HOPS},
	{name: "SO_PRIORITY", level: unix.SOL_SOCKET, opt: unix.SO_PRIORITY}, // after IP_TOS, which sets it
}

// inherit gives the TCP socket to the options of from that their connections
// inherit; both are borrowed. What the kernel does not allow is told to the log:
// it is no reason not to serve.
func inherit(to, from int, log *slog.Logger) {
	refused := func(option string, err error) {
		log.Warn("an option of systemd's socket cannot be set on one beside it", "option", option, "cause", err)
	}
	for _, o := range inherited {
		want, err := unix.GetsockoptInt(from, o.level, o.opt)
		if err != nil {
			continue // of the other family
		}
		if have, err := unix.GetsockoptInt(to, o.level, o.opt); err == nil && have == want {
			continue
		}
		o.value = want
		if err := o.set(to); err != nil {
			refused(o.name, err)
		}
	}
	want, err := unix.GetsockoptString(from, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		return
	}
	if have, err := unix.GetsockoptString(to, unix.IPPROTO_TCP, unix.TCP_CONGESTION); err == nil && have == want {
		return
	}
	if err := unix.SetsockoptString(to, unix.IPPROTO_TCP, unix.TCP_CONGESTION, want); err != nil {
		refused("TCP_CONGESTION", err)
	}
}
