package carry

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// errMoving is why there is no sample of a connection on which too much happens.
var errMoving = errors.New("it does not hold still")

// takeSample asks the kernel about the connection raw, which is borrowed.
func takeSample(raw int) (s sample, err error) {
	before, err := unix.GetsockoptTCPInfo(raw, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return s, os.NewSyscallError("getsockopt TCP_INFO", err)
	}
	for range 10 {
		unread, err := unix.IoctlGetInt(raw, unix.SIOCINQ)
		if err != nil {
			return s, os.NewSyscallError("ioctl SIOCINQ", err)
		}
		unacked, err := unix.IoctlGetInt(raw, unix.SIOCOUTQ)
		if err != nil {
			return s, os.NewSyscallError("ioctl SIOCOUTQ", err)
		}
		info, err := unix.GetsockoptTCPInfo(raw, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return s, os.NewSyscallError("getsockopt TCP_INFO", err)
		}
		// The numbers belong together if none of those that move by themselves has moved meanwhile.
		if info.State == before.State && info.Bytes_received == before.Bytes_received && info.Bytes_acked == before.Bytes_acked {
			s = sample{
				state: info.State, received: info.Bytes_received, unread: uint64(unread),
				written: info.Bytes_acked + uint64(unacked), unacked: uint64(unacked), unsent: uint64(info.Notsent_bytes),
				sinceReceived: time.Duration(info.Last_data_recv) * time.Millisecond,
				sinceSent:     time.Duration(info.Last_data_sent) * time.Millisecond,
			}
			if s.state == closeWait && s.received > 0 {
				s.received-- // the end counts as a byte there, and not in SIOCINQ
			}
			if s.unread > s.received {
				return s, errMoving
			}
			return s, nil
		}
		before = info
	}
	return s, errMoving
}

// high is the low water mark of a parked connection: more than any request. The kernel takes as much of it as may be buffered.
const high = 1 << 30

// setMark sets the low water mark of the connection raw, which is borrowed: whoever has it is woken when so many bytes
// wait. The kernel wakes at once if they do.
func setMark(raw, bytes int) error {
	return os.NewSyscallError("setsockopt SO_RCVLOWAT", unix.SetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes))
}

// peek returns the first unread bytes of the connection raw, which is borrowed, in buf. It returns ended if there are
// none and never will be.
func peek(raw int, buf []byte) (b []byte, ended bool) {
	for {
		n, _, err := unix.Recvfrom(raw, buf, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return nil, false
		case err != nil || n == 0:
			return nil, true
		default:
			return buf[:n], false
		}
	}
}

// unsuited says why a connection cannot be parked, whatever it is doing, or returns "".
func unsuited(raw int) Reason {
	protocol, err := unix.GetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if err != nil || protocol != unix.IPPROTO_TCP {
		return Unsuited // MPTCP
	}
	if mark, err := unix.GetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_RCVLOWAT); err != nil || mark != 1 {
		return Unsuited // the service has an idea of its own
	}
	// Peeking moves this on where it is set.
	if offset, err := unix.GetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_PEEK_OFF); err == nil && offset >= 0 {
		return Unsuited
	}
	if filtered(raw) {
		return Unsuited
	}
	if ulp, err := unix.GetsockoptString(raw, unix.IPPROTO_TCP, unix.TCP_ULP); err == nil && ulp != "" {
		return Unsuited // the kernel ends TLS
	}
	return ""
}

// blocks reports whether whoever reads the connection raw, which is borrowed, may sleep in recv(2): it goes by the mark as it was when it
// began then, or takes bytes and sleeps on.
func blocks(raw int) bool {
	flags, err := unix.FcntlInt(uintptr(raw), unix.F_GETFL, 0)
	return err != nil || flags&unix.O_NONBLOCK == 0
}

// wake has whoever sleeps in recv(2) on the connection raw, which is borrowed, come back with what it has. After that the connection ends
// for it as if the client had ended its half.
func wake(raw int) { _ = unix.Shutdown(raw, unix.SHUT_RD) }
