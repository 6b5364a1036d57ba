package fdpass

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Dup returns a duplicate that the caller owns: another descriptor, marked
// close-on-exec from the start, of the same open file description. It returns
// os.ErrClosed if f is closed.
func (f *FD) Dup() (*FD, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.raw < 0 {
		return nil, os.ErrClosed
	}
	// Duplicates stay clear of 0, 1 and 2, which a child gets anew.
	raw, err := unix.FcntlInt(uintptr(f.raw), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
	}
	return NewFD(raw), nil
}

// DupConn returns a duplicate, which the caller owns, of the descriptor of a
// connection, a listener or a file of package net or os. It does not go through
// File and Fd, which would make it a blocking one for everybody who shares it.
func DupConn(c syscall.Conn) (*FD, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	own := -1
	var failed error
	err = raw.Control(func(fd uintptr) { own, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3) })
	if err == nil {
		err = os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", failed)
	}
	if err != nil {
		return nil, err
	}
	return NewFD(own), nil
}

// Close closes the descriptor. Closing again does nothing and returns nil.
func (f *FD) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.raw < 0 {
		return nil
	}
	raw := f.raw
	f.raw = -1 // also after an error: Linux has freed the number even then, see close(2)
	return os.NewSyscallError("close", unix.Close(raw))
}
