package drill

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socket is a connected stream socket. It is a net.Conn for crypto/tls and http2. net.Dial is not used: it has retries of its
// own, goes on to a name's next address, and fails on a unix socket whose queue is full, where every other client waits.
// A socket owns its descriptor.
type socket struct {
	file *os.File
	fd   int // the file's
	// dontWait makes Read return errWouldBlock instead of waiting.
	dontWait bool
	err      error // of the last Read that failed for good
}

// errWouldBlock is temporary for crypto/tls, which keeps every other error.
var errWouldBlock net.Error = wouldBlock{}

type wouldBlock struct{}

func (wouldBlock) Error() string   { return "nothing to read" }
func (wouldBlock) Timeout() bool   { return true }
func (wouldBlock) Temporary() bool { return true }

// connect makes one attempt to connect. On error nothing is left open.
func connect(a *address, deadline time.Time) (*socket, error) {
	flags := unix.SOCK_STREAM | unix.SOCK_CLOEXEC
	if a.domain != unix.AF_UNIX {
		flags |= unix.SOCK_NONBLOCK
	}
	fd, err := unix.Socket(a.domain, flags, 0)
	if err != nil {
		return nil, &localError{os.NewSyscallError("socket", err)}
	}
	if a.domain == unix.AF_UNIX {
		err = connectUnix(fd, a, deadline)
	} else {
		err = unix.Connect(fd, a.sockaddr())
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return nil, os.NewSyscallError("connect", err)
	}
	s := &socket{file: os.NewFile(uintptr(fd), "socket"), fd: fd}
	if err == unix.EINPROGRESS {
		if err := s.finishConnect(deadline); err != nil {
			s.Close()
			return nil, os.NewSyscallError("connect", err)
		}
	}
	return s, nil
}

// connectUnix blocks a thread: a non-blocking connect to a unix socket whose queue is full fails at once.
func connectUnix(fd int, a *address, deadline time.Time) error {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return unix.ETIMEDOUT
		}
		timeout := unix.NsecToTimeval(max(left.Nanoseconds(), 1000))
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout); err != nil {
			return err
		}
		switch err := unix.Connect(fd, a.sockaddr()); err {
		case unix.EINTR: // a signal of the Go runtime; nothing has happened yet (unix_wait_for_peer in the kernel)
		case unix.EAGAIN:
			return unix.ETIMEDOUT
		case nil:
			return unix.SetNonblock(fd, true) // nobody else has this description
		default:
			return err
		}
	}
}

// finishConnect waits for a connect that is in progress.
func (s *socket) finishConnect(deadline time.Time) error {
	if err := s.file.SetDeadline(deadline); err != nil {
		return err
	}
	raw, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = raw.Write(func(fd uintptr) bool {
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			err = unix.Errno(code)
		}
		if err == nil {
			if _, err = unix.Getpeername(int(fd)); err == unix.ENOTCONN {
				return false
			}
		}
		result = err
		return true
	})
	if err != nil {
		return err
	}
	return result
}

// Read reads what there is.
func (s *socket) Read(b []byte) (int, error) {
	n, err := 0, error(nil)
	if s.dontWait {
		for {
			if n, err = unix.Read(s.fd, b); err != unix.EINTR {
				break
			}
		}
		switch {
		case err == unix.EAGAIN:
			return 0, errWouldBlock
		case err != nil:
			n, err = 0, os.NewSyscallError("read", err)
		case n == 0 && len(b) > 0:
			err = io.EOF
		}
	} else {
		n, err = s.file.Read(b)
	}
	if err != nil {
		s.err = err
	}
	return n, err
}

func (s *socket) Write(b []byte) (int, error) { return s.file.Write(b) }
func (s *socket) Close() error                { return s.file.Close() }

func (s *socket) SetDeadline(t time.Time) error      { return s.file.SetDeadline(t) }
func (s *socket) SetReadDeadline(t time.Time) error  { return s.file.SetReadDeadline(t) }
func (s *socket) SetWriteDeadline(t time.Time) error { return s.file.SetWriteDeadline(t) }

func (s *socket) LocalAddr() net.Addr  { return noAddr{} }
func (s *socket) RemoteAddr() net.Addr { return noAddr{} }

// noAddr stands for addresses that nobody asks for.
type noAddr struct{}

func (noAddr) Network() string { return "socket" }
func (noAddr) String() string  { return "socket" }

// errno is the kernel's own error in err, or 0.
func errno(err error) syscall.Errno {
	var e syscall.Errno
	errors.As(err, &e)
	return e
}
