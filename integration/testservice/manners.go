package main

import (
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A mannered listener makes something else of the connections that it accepts.
type mannered struct {
	net.Listener
	accepted func(c *net.TCPConn) (net.Conn, error) // takes c
}

func (l mannered) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.accepted(c.(*net.TCPConn))
}

// blocking is a connection that is read and written with blocking calls, as a service with a thread for each has it. Whoever sleeps in
// one has the connection still after Close.
type blocking struct {
	fd            int
	local, remote net.Addr
}

func newBlocking(c *net.TCPConn) (net.Conn, error) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	b := &blocking{fd: -1, local: c.LocalAddr(), remote: c.RemoteAddr()}
	if e := raw.Control(func(fd uintptr) {
		if b.fd, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = unix.SetNonblock(b.fd, false)
		}
	}); e != nil {
		err = e
	}
	return b, err
}

func (b *blocking) Read(p []byte) (int, error) {
	for {
		switch n, err := unix.Read(b.fd, p); {
		case err == unix.EINTR:
		case err != nil:
			return 0, os.NewSyscallError("read", err)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (b *blocking) Write(p []byte) (n int, err error) {
	for n < len(p) {
		m, err := unix.SendmsgN(b.fd, p[n:], nil, nil, unix.MSG_NOSIGNAL)
		if err != nil && err != unix.EINTR {
			return n, os.NewSyscallError("send", err)
		}
		n += max(0, m)
	}
	return n, nil
}

func (b *blocking) Close() error                     { return unix.Close(b.fd) }
func (b *blocking) LocalAddr() net.Addr              { return b.local }
func (b *blocking) RemoteAddr() net.Addr             { return b.remote }
func (b *blocking) SetDeadline(time.Time) error      { return nil }
func (b *blocking) SetReadDeadline(time.Time) error  { return nil }
func (b *blocking) SetWriteDeadline(time.Time) error { return nil }

// shut is a connection that is ended with shutdown(2), as HAProxy does it.
type shut struct{ *net.TCPConn }

func (s shut) Close() error {
	_ = s.CloseWrite()
	_ = s.CloseRead()
	return s.TCPConn.Close()
}
