package fdpass

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// openUnix returns a new unix socket, bound and listening, and its file, or nil
// for an abstract name. The caller owns the socket and removes the file.
//
// A connection is refused until listen, so owner and permissions are right
// before the first one. Datagrams are taken from bind on, so the file is only
// for us until then.
func (s Spec) openUnix(log *slog.Logger) (fd *FD, file *socketFile, err error) {
	owner, err := s.ownership()
	if err != nil {
		return nil, nil, err
	}
	fd, err = s.newSocket(unix.AF_UNIX)
	if err != nil {
		return nil, nil, err
	}
	defer closeOnError(fd, &err)
	if err := s.setBuffers(fd.Raw(), log); err != nil {
		return nil, nil, err
	}
	if !s.unixPath() {
		if err := unix.Bind(fd.Raw(), &unix.SockaddrUnix{Name: s.Address}); err != nil {
			return nil, nil, os.NewSyscallError("bind", err)
		}
		return fd, nil, s.listen(fd.Raw())
	}
	bound, err := s.bindPath(fd.Raw(), log)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_ = bound.remove() // the first error is the one that tells
		}
	}()
	if err := bound.set(owner); err != nil {
		return nil, nil, err
	}
	return fd, bound, s.listen(fd.Raw())
}

// bindPath binds the socket raw, which is borrowed, to the path of the spec, and
// clears a file out of the way that a dead process left there. If the spec has
// permissions, the new file is for us alone, until they are set.
func (s Spec) bindPath(raw int, log *slog.Logger) (*socketFile, error) {
	if s.Permissions != 0 {
		// bind(2) gives the file the mode of the socket, less the umask.
		if err := unix.Fchmod(raw, 0o600); err != nil {
			return nil, os.NewSyscallError("fchmod", err)
		}
	}
	for attempt := 1; ; attempt++ {
		err := unix.Bind(raw, &unix.SockaddrUnix{Name: s.Address})
		if err == nil {
			break
		}
		if err != unix.EADDRINUSE || attempt > 3 {
			return nil, os.NewSyscallError("bind", err)
		}
		if err := s.clearPath(log); err != nil {
			return nil, err
		}
	}
	id, _, err := identify(s.Address)
	if err != nil {
		return nil, os.NewSyscallError("lstat", err)
	}
	return &socketFile{path: s.Address, id: id}, nil
}

// What is in the way at a unix path.
var (
	errLive      = errors.New("another process has the socket open")
	errNotSocket = errors.New("the file is not a socket")
	errUnsure    = errors.New("it cannot be told whether a process has the socket open")
)

// clearPath removes the file at the path if it is a socket that no process has
// open any more. If there is none, it returns nil too.
func (s Spec) clearPath(log *slog.Logger) error {
	unlock := lockDirectory(path.Dir(s.Address))
	defer unlock()
	id, kind, err := identify(s.Address)
	switch {
	case err == unix.ENOENT:
		return nil
	case err != nil:
		return os.NewSyscallError("lstat", err)
	case kind != unix.S_IFSOCK:
		return errNotSocket
	}
	// Without this a socket between bind and listen would pass for dead. Where
	// the kernel has no unix_diag, connect has to do.
	if bound, err := unixBound(id, s.Address); err == nil && bound {
		return fmt.Errorf("%w: %w", errLive, unix.EADDRINUSE)
	}
	if err := s.probePath(); err != nil {
		return err
	}
	if now, _, err := identify(s.Address); err != nil || now != id {
		return nil // it has changed hands meanwhile: look again
	}
	if err := unix.Unlink(s.Address); err != nil && err != unix.ENOENT {
		return os.NewSyscallError("unlink", err)
	}
	log.Info("removed a socket file that a dead process left", "socket", s.FDName(), "path", s.Address)
	return nil
}

// probePath connects to the path to see whether somebody is there, also in
// another network namespace. It returns nil if nobody is.
func (s Spec) probePath() error {
	probe, err := Spec{Network: s.Network, NonBlocking: true}.newSocket(unix.AF_UNIX)
	if err != nil {
		return err
	}
	defer probe.Close()
	switch err := unix.Connect(probe.Raw(), &unix.SockaddrUnix{Name: s.Address}); err {
	case unix.ECONNREFUSED, unix.ENOENT:
		return nil
	case unix.EACCES, unix.EPERM:
		return fmt.Errorf("%w: %w", errUnsure, os.NewSyscallError("connect", err))
	default: // also a full queue (EAGAIN) and another type of socket (EPROTOTYPE)
		return fmt.Errorf("%w: %w", errLive, unix.EADDRINUSE)
	}
}

// lockWait bounds the wait for others who have locked a directory.
const lockWait = 2 * time.Second

// lockDirectory keeps two supervisors from clearing the same path at once, where
// the slower one would remove the new socket of the faster. Who cannot get the
// lock, because the directory cannot be read or somebody else keeps it locked,
// goes on without: it only matters in that one race.
func lockDirectory(dir string) (unlock func()) {
	raw, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	for end := time.Now().Add(lockWait); ; time.Sleep(10 * time.Millisecond) {
		if unix.Flock(raw, unix.LOCK_EX|unix.LOCK_NB) == nil || time.Now().After(end) {
			return func() { unix.Close(raw) } // which unlocks
		}
	}
}
