package systemd

import (
	"fmt"
	"net"
	"os"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// FD returns a duplicate, which the caller owns, of the socket, for Resume in
// another process.
func (r *Receiver) FD() (*fdpass.FD, error) { return fdpass.DupConn(r.conn) }

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
