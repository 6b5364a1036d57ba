package fdpass

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tcpListen is TCP_LISTEN of tcp_states.h, the state of a listening socket.
const tcpListen = 10

// stats asks the kernel about the socket raw, which is borrowed.
func (e endpoint) stats(raw int) (Stats, error) {
	mem, ok, err := memInfo(raw)
	if err != nil {
		return Stats{}, err
	}
	memory := func(i int) int {
		if !ok {
			return Unknown
		}
		return int(mem[i])
	}
	st := Stats{Dropped: memory(unix.SK_MEMINFO_DROPS)}
	if e.listens() {
		if st.ShutDown, err = isShutDown(raw); err != nil {
			return Stats{}, err
		}
	}
	switch {
	case e.tcp():
		st.Queue, st.QueueLimit, err = tcpQueue(raw)
	case e.udp():
		st.Unread, st.UnreadLimit = memory(unix.SK_MEMINFO_RMEM_ALLOC), memory(unix.SK_MEMINFO_RCVBUF)
	case e.listens():
		// Without unix_diag the kernel does not tell.
		if st.Queue, st.QueueLimit, err = unixQueue(raw); err != nil {
			st.Queue, st.QueueLimit, err = Unknown, Unknown, nil
		}
	default:
		// The memory of unix datagrams is charged to their senders.
		st.Unread, err = nextDatagram(raw)
		st.UnreadLimit = Unknown
	}
	return st, err
}

// tcpQueue returns how many connections wait in a listening socket and how many
// may: tcpi_unacked and tcpi_sacked mean that for it. For one that does not
// listen any more, and for MPTCP, they are Unknown.
func tcpQueue(raw int) (queue, limit int, err error) {
	info, err := unix.GetsockoptTCPInfo(raw, unix.IPPROTO_TCP, unix.TCP_INFO)
	switch {
	case err == unix.EOPNOTSUPP:
		return Unknown, Unknown, nil
	case err != nil:
		return Unknown, Unknown, os.NewSyscallError("getsockopt TCP_INFO", err)
	case info.State != tcpListen:
		return Unknown, Unknown, nil
	}
	return int(info.Unacked), int(info.Sacked), nil
}

// nextDatagram returns the size of the first unread datagram, at least 1 if
// there is one, else 0.
func nextDatagram(raw int) (int, error) {
	size, err := unix.IoctlGetInt(raw, unix.SIOCINQ)
	if err != nil {
		return Unknown, os.NewSyscallError("ioctl SIOCINQ", err)
	}
	if size == 0 {
		if waiting, err := readable(raw); err != nil || waiting {
			return 1, err
		}
	}
	return size, nil
}

// readable reports whether anything waits in the socket raw, which is borrowed:
// a connection to be accepted or a datagram to be read. Nothing waits in a
// listening socket that a process has shut down. It does not block.
func readable(raw int) (bool, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(raw), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		if err == unix.EINTR {
			continue
		}
		return n > 0 && fds[0].Revents&(unix.POLLIN|unix.POLLHUP) == unix.POLLIN, os.NewSyscallError("poll", err)
	}
}

// isShutDown reports whether a process has shut the listening socket raw, which is
// borrowed, down for reading: then nobody can connect to it.
func isShutDown(raw int) (bool, error) {
	for {
		fds := []unix.PollFd{{Fd: int32(raw), Events: unix.POLLRDHUP}}
		_, err := unix.Poll(fds, 0)
		if err == unix.EINTR {
			continue
		}
		return fds[0].Revents&(unix.POLLHUP|unix.POLLRDHUP) != 0, os.NewSyscallError("poll", err)
	}
}

// memInfo returns SO_MEMINFO, see socket(7) and linux/sock_diag.h. Before Linux
// 4.12 there is none, and ok is false.
func memInfo(raw int) (info [unix.SK_MEMINFO_VARS]uint32, ok bool, err error) {
	size := uint32(unsafe.Sizeof(info))
	// x/sys has no call for an option of this shape.
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(raw), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if errno == unix.ENOPROTOOPT {
		return info, false, nil
	}
	if errno != 0 {
		return info, false, os.NewSyscallError("getsockopt SO_MEMINFO", errno)
	}
	return info, true, nil
}
