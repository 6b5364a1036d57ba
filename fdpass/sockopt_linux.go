package fdpass

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An optionError is an option that the kernel refused.
type optionError struct {
	option, value string
	err           error // of the system call
}

func (e *optionError) Error() string { return fmt.Sprintf("option %q: %v", e.option, e.err) }
func (e *optionError) Unwrap() error { return e.err }

// A sockopt is one call of setsockopt(2).
type sockopt struct {
	option, name      string // as the user and as the kernel calls it
	level, opt, value int
}

func (o sockopt) set(raw int) error {
	if err := unix.SetsockoptInt(raw, o.level, o.opt, o.value); err != nil {
		return &optionError{o.option, fmt.Sprint(o.value), os.NewSyscallError("setsockopt "+o.name, err)}
	}
	return nil
}

// setOptions sets what belongs before bind on the internet socket raw, which is
// borrowed. It covers everything but the buffers.
func (s Spec) setOptions(raw int, t target) error {
	var opts []sockopt
	add := func(on bool, option, name string, level, opt, value int) {
		if on {
			opts = append(opts, sockopt{option, name, level, opt, value})
		}
	}
	v6 := t.addr.Addr().Is6()
	// A restarted supervisor must not wait for connections of the one before
	// that linger in TIME-WAIT. Unlike elsewhere it does not let two listeners
	// share an address on Linux, see socket(7). Go does the same.
	add(s.tcp(), "", "SO_REUSEADDR", unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	add(s.ReusePort, "reuseport", "SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	// Set in any case: net.ipv6.bindv6only changes the default.
	add(v6, "v6only", "IPV6_V6ONLY", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, oneIf(t.v6only))
	add(s.FreeBind && v6, "freebind", "IPV6_FREEBIND", unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
	add(s.FreeBind && !v6, "freebind", "IP_FREEBIND", unix.IPPROTO_IP, unix.IP_FREEBIND, 1)
	add(s.Transparent && v6, "transparent", "IPV6_TRANSPARENT", unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT, 1)
	add(s.Transparent && !v6, "transparent", "IP_TRANSPARENT", unix.IPPROTO_IP, unix.IP_TRANSPARENT, 1)
	add(s.Mark != 0, "mark", "SO_MARK", unix.SOL_SOCKET, unix.SO_MARK, int(int32(s.Mark)))
	add(s.DeferAccept != 0, "defer-accept", "TCP_DEFER_ACCEPT", unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, int(s.DeferAccept/time.Second))
	add(s.FastOpen != 0, "fastopen", "TCP_FASTOPEN", unix.IPPROTO_TCP, unix.TCP_FASTOPEN, s.FastOpen)
	for _, o := range opts {
		if err := o.set(raw); err != nil {
			return err
		}
	}
	if s.Device != "" {
		if err := unix.BindToDevice(raw, s.Device); err != nil {
			return &optionError{"device", s.Device, os.NewSyscallError("setsockopt SO_BINDTODEVICE", err)}
		}
	}
	return nil
}

// setBuffers sets the sizes of both buffers, and tells log what the kernel made
// of them if that is less. With CAP_NET_ADMIN there is no limit.
func (s Spec) setBuffers(raw int, log *slog.Logger) error {
	for _, b := range []struct {
		option, name, sysctl string
		force, opt, size     int
	}{
		{"rcvbuf", "SO_RCVBUF", "net.core.rmem_max", unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, s.ReceiveBuffer},
		{"sndbuf", "SO_SNDBUF", "net.core.wmem_max", unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, s.SendBuffer},
	} {
		if b.size == 0 {
			continue
		}
		if unix.SetsockoptInt(raw, unix.SOL_SOCKET, b.force, b.size) != nil {
			if err := (sockopt{b.option, b.name, unix.SOL_SOCKET, b.opt, b.size}).set(raw); err != nil {
				return err
			}
		}
		// The kernel takes twice the size, for its own bookkeeping, see socket(7).
		got, err := unix.GetsockoptInt(raw, unix.SOL_SOCKET, b.opt)
		if err != nil {
			return os.NewSyscallError("getsockopt "+b.name, err)
		}
		if got/2 < b.size {
			log.Warn("the kernel allows less buffer than asked for", "socket", s.FDName(), "option", b.option, "asked", b.size, "got", got/2, "limit", b.sysctl)
		}
	}
	return nil
}

func oneIf(on bool) int {
	if on {
		return 1
	}
	return 0
}
