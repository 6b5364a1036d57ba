package child

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child/internal/shim"
)

// hear reads what a shim says until it closes its socket, and takes the listener that may come with
// it: -1 if none does. The caller owns that, also after an error.
func hear(socket *os.File) (said []byte, listener int, err error) {
	listener = -1
	conn, err := socket.SyscallConn()
	if err != nil {
		return nil, listener, err
	}
	buf, rights := make([]byte, 64), make([]byte, unix.CmsgSpace(4))
	for len(said) <= shim.MaxReports {
		var n, oobn int
		var failed error
		err := conn.Read(func(fd uintptr) bool {
			for {
				n, oobn, _, _, failed = unix.Recvmsg(int(fd), buf, rights, unix.MSG_CMSG_CLOEXEC)
				if failed != unix.EINTR {
					return failed != unix.EAGAIN
				}
			}
		})
		if err = errors.Join(err, os.NewSyscallError("recvmsg", failed)); err != nil {
			return said, listener, err
		}
		if oobn > 0 {
			listener = takeListener(rights[:oobn], listener)
		}
		if n == 0 {
			return said, listener, nil
		}
		said = append(said, buf[:n]...)
	}
	return said, listener, nil
}

// takeListener returns the descriptor in a control message, or before if there is none.
func takeListener(rights []byte, before int) int {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return before
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			if before >= 0 {
				unix.Close(before)
			}
			before = fd
		}
	}
	return before
}
