package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// FD returns a duplicate, which the caller owns, of the socket, for Resume in
// another process.
func (r *Receiver) FD() (*fdpass.FD, error) { return duplicate(r.conn) }

// Leave is Close, but leaves the socket's file: another process has the socket,
// or will have it.
func (r *Receiver) Leave() error {
	r.closing.Do(func() { r.closeErr = r.conn.Close() })
	return r.closeErr
}

// Resume makes a Receiver of a socket that Listen has bound to path in another
// process. fd, which is borrowed, is duplicated. What was sent since nobody
// receives any more is received.
func Resume(fd *fdpass.FD, path string) (*Receiver, error) {
	own, err := fd.Dup()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(own.Disown()), path)
	defer f.Close()
	c, err := net.FilePacketConn(f)
	if err != nil {
		return nil, fmt.Errorf("take the notify socket %s over: %w", path, err)
	}
	conn, ok := c.(*net.UnixConn)
	if !ok || conn.LocalAddr().String() != path {
		c.Close()
		return nil, fmt.Errorf("what was kept is not the notify socket %s: %w", path, ErrAddress)
	}
	file, err := os.Lstat(path)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("take the notify socket over: %w", err)
	}
	return &Receiver{conn: conn, path: path, file: file}, nil
}

// duplicate returns a duplicate of a connection's descriptor. It does not go
// through File and Fd, which would make the socket a blocking one for everybody
// who shares it.
func duplicate(c syscall.Conn) (*fdpass.FD, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var own int
	var failed error
	err = raw.Control(func(fd uintptr) { own, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3) })
	if err = errors.Join(err, os.NewSyscallError("fcntl", failed)); err != nil {
		return nil, err
	}
	return fdpass.NewFD(own), nil
}
