package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// A Listener is a control socket. It keeps its directory locked: whoever has the lock may remove a socket that is left in
// it.
type Listener struct {
	*net.UnixListener
	directory *os.File
}

// Close closes the socket and removes its file. The lock is let go of, unless another process has it from Files.
func (l *Listener) Close() error { return errors.Join(l.UnixListener.Close(), l.directory.Close()) }

// Leave makes Close leave the socket's file: another process has the socket.
func (l *Listener) Leave() { l.SetUnlinkOnClose(false) }

// Files returns duplicates, which the caller owns, of what the listener consists of, for Inherit in another process.
func (l *Listener) Files() (fds []*fdpass.FD, err error) {
	for _, part := range []syscall.Conn{l.UnixListener, l.directory} {
		fd, err := fdpass.DupConn(part)
		if err != nil {
			return nil, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// Inherit makes a Listener of what Files has returned in another process, which it takes.
func Inherit(fds []*fdpass.FD) (*Listener, error) {
	if len(fds) != 2 {
		return nil, fmt.Errorf("a control socket consists of 2 descriptors, and not of %d", len(fds))
	}
	f := os.NewFile(uintptr(fds[0].Disown()), SocketName)
	directory := os.NewFile(uintptr(fds[1].Disown()), "runtime directory")
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		directory.Close()
		return nil, fmt.Errorf("take the control socket over: %w", err)
	}
	unixListener, ok := l.(*net.UnixListener)
	if !ok {
		l.Close()
		directory.Close()
		return nil, errors.New("the control socket is no unix socket")
	}
	unixListener.SetUnlinkOnClose(true)
	return &Listener{unixListener, directory}, nil
}
