package load

import (
	"bufio"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// conn is one connection of one worker, on a blocking socket with the kernel's own timeouts. Go's dialer is not used: it has
// retries of its own, and its non-blocking connect fails on a unix socket whose queue is full where every other client waits.
// A conn owns its descriptor.
type conn struct {
	fd       int
	deadline time.Time
	read     int   // bytes of the present answer
	err      error // why nothing more can be read
	br       *bufio.Reader
}

// dial connects to the service. On error nothing is left open.
func dial(p *plan) (*conn, error) {
	fd, err := unix.Socket(p.domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, &localError{os.NewSyscallError("socket", err)}
	}
	timeout := unix.NsecToTimeval(p.Timeout.Nanoseconds())
	for _, option := range []int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &timeout); err != nil {
			unix.Close(fd)
			return nil, &localError{os.NewSyscallError("setsockopt", err)}
		}
	}
	addr, deadline := p.addr(), time.Now().Add(p.Timeout)
	// A signal of the Go runtime interrupts a connect that has a timeout; calling it again goes on waiting for the same
	// connection (connect(2), inet_stream_connect in the kernel), so this is no second attempt.
	for {
		err = unix.Connect(fd, addr)
		if err == unix.EINTR && time.Now().Before(deadline) {
			continue
		}
		break
	}
	switch {
	case err == nil || err == unix.EISCONN:
		c := &conn{fd: fd}
		c.br = bufio.NewReader(c)
		return c, nil
	case err == unix.EINTR, err == unix.EINPROGRESS, err == unix.EALREADY:
		err = unix.ETIMEDOUT
	}
	unix.Close(fd)
	return nil, os.NewSyscallError("connect", err)
}

// send writes all of b.
func (c *conn) send(b []byte) error {
	for len(b) > 0 {
		n, err := unix.SendmsgN(c.fd, b, nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case err == unix.EINTR && time.Now().Before(c.deadline):
		case err != nil:
			return os.NewSyscallError("send", err)
		default:
			b = b[n:]
		}
	}
	return nil
}

// Read reads from the socket for the bufio.Reader.
func (c *conn) Read(b []byte) (n int, err error) {
	defer func() { c.err = err }()
	for {
		if !time.Now().Before(c.deadline) {
			return 0, os.NewSyscallError("read", unix.EAGAIN)
		}
		n, err := unix.Read(c.fd, b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		default:
			c.read += n
			return n, nil
		}
	}
}

// idleClosed reports whether the service has closed the connection since the last answer.
func (c *conn) idleClosed() bool {
	if c.br.Buffered() > 0 {
		return false
	}
	var b [1]byte
	n, _, err := unix.Recvfrom(c.fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	switch err {
	case nil:
		return n == 0
	case unix.EAGAIN, unix.EINTR:
		return false
	default:
		return true
	}
}

func (c *conn) close() { unix.Close(c.fd) }

// localError marks a failure of the client itself.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// connectKind tells what a failed dial means.
func connectKind(err error) Kind {
	var local *localError
	switch {
	case errors.As(err, &local):
		return Local
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT):
		return Refused
	case errors.Is(err, unix.ECONNRESET):
		return ConnectReset
	case errors.Is(err, unix.ETIMEDOUT), errors.Is(err, unix.EAGAIN):
		return Timeout
	}
	return Local
}
