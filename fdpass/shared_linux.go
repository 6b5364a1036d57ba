package fdpass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// shared is a Socket in shared mode: one kernel socket, of which every
// generation gets a duplicate. It keeps no account of who has one, because
// nothing depends on it.
type shared struct {
	endpoint endpoint
	log      *slog.Logger
	// foreign marks a socket that systemd owns too. What belongs to the socket
	// and not to our descriptor is not ours to change.
	foreign bool

	mu   sync.Mutex
	spec Spec        // as it is in force
	fd   *FD         // owned; closed is closed for good; the guard may put another one there
	file *socketFile // of a unix path that we bound, else nil
	sink *FD         // owned; takes the SYNs while the socket retires, or nil

	guard *guard // owned; nil where there is nothing to guard
}

// watch begins to guard a socket that is the supervisor's own. It is called before
// anybody else has the socket.
func (sh *shared) watch() {
	if !sh.endpoint.listens() && sh.file == nil {
		return
	}
	what := guarded{socket: sh.fd, file: sh.file}
	switch {
	case sh.file != nil:
		what.renew = sh.renew
	case sh.endpoint.listens():
		what.listen = func() error { return sh.use(sh.relisten) }
	}
	sh.guard = newGuard(what, sh.log.With("socket", sh.spec.FDName()))
}

// renew puts another socket at the path of a unix socket that takes nothing any
// more, and returns it; it is borrowed. Those who have the old one keep that, and what
// waits in it: the new one is for generations that join from now on. It is for the
// guard.
//
// The new one is bound to the path itself, and not beside it and renamed, since
// programs ask for the address of a socket that they inherit. There is no file for a
// moment then; connections failed before, too.
func (sh *shared) renew() (*FD, error) {
	sh.mu.Lock()
	spec := sh.spec
	sh.mu.Unlock()
	if err := sh.file.unlink(sh.file.path); err != nil {
		return nil, err
	}
	fd, file, err := spec.openUnix(sh.log)
	if err != nil {
		_ = sh.file.restore() // the first error is the one that tells
		return nil, err
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	old := sh.fd
	sh.fd, sh.file.id = fd, file.id
	return fd, old.Close()
}

// errDeaf is what is wrong with a socket that takes no connections any more.
var errDeaf = errors.New("the kernel does not let it take connections any more")

// relisten makes the socket take connections again, where it always has, after
// shutdown(2) has ended that for everybody. For an abstract unix name there is no way.
func (sh *shared) relisten(raw int) error {
	if sh.endpoint.tcp() {
		// A port that the kernel has chosen is not kept for it.
		if err := sh.bindAgain(raw); err != nil && !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	if err := sh.spec.listen(raw); err != nil {
		return err
	}
	shut, err := isShutDown(raw)
	if err != nil {
		return err
	}
	now, err := inspect(raw)
	if err != nil {
		return err
	}
	if shut || now.addr() != sh.endpoint.addr() {
		return errDeaf
	}
	return nil
}

// bindAgain binds the TCP socket to the address that it had. It returns EINVAL if
// it has one.
func (sh *shared) bindAgain(raw int) error {
	addr, err := sh.endpoint.addrPort()
	if err != nil {
		return err
	}
	sa, _, err := target{addr, sh.endpoint.network == TCP6}.sockaddr()
	if err != nil {
		return err
	}
	return os.NewSyscallError("bind", unix.Bind(raw, sa))
}

// openUnix opens the socket of a unix spec anew.
func openUnix(s Spec, log *slog.Logger) (_ *shared, err error) {
	sh := &shared{spec: s, log: log}
	if sh.fd, sh.file, err = s.openUnix(log); err != nil {
		return nil, err
	}
	if sh.endpoint, err = inspect(sh.fd.Raw()); err != nil {
		_ = sh.Close() // the first error is the one that tells
		return nil, err
	}
	sh.endpoint.reportBacklog(s, sh.fd.Raw(), log)
	sh.watch()
	return sh, nil
}

// adoptShared makes a Socket of a duplicate of fd, which is borrowed.
func adoptShared(s Spec, fd *FD, log *slog.Logger) (_ *shared, err error) {
	sh := &shared{spec: s, log: log, foreign: true}
	if sh.fd, err = fd.Dup(); err != nil {
		return nil, err
	}
	if sh.endpoint, err = inspect(sh.fd.Raw()); err != nil {
		_ = sh.fd.Close()
		return nil, err
	}
	return sh, nil
}

// reportBacklog tells the log if the kernel took less than the spec asks for.
// raw is borrowed.
func (e endpoint) reportBacklog(s Spec, raw int, log *slog.Logger) {
	if s.Backlog == 0 {
		return
	}
	st, err := e.stats(raw)
	if err == nil && st.QueueLimit != Unknown && st.QueueLimit < s.Backlog {
		log.Warn("the kernel allows fewer waiting connections than asked for", "socket", s.FDName(),
			"option", "backlog", "asked", s.Backlog, "got", st.QueueLimit, "limit", "net.core.somaxconn")
	}
}

func (sh *shared) Addr() string { return sh.endpoint.addr() }

func (sh *shared) Mode() Mode { return Shared }

func (sh *shared) Join(gen, heirOf int) (fd *FD, err error) {
	err = sh.use(func(int) error {
		fd, err = sh.fd.Dup()
		return err
	})
	return fd, err
}

func (sh *shared) Cutover(gen int) error { return sh.open() }

func (sh *shared) Share(gen int, share float64) error { return sh.open() }

func (sh *shared) Dial(ctx context.Context, gen int) (net.Conn, error) {
	return nil, ErrNotSteered
}

func (sh *shared) Pending(gen int, c *Census, limit time.Duration) Unsettled { return Unsettled{} }

func (sh *shared) Forward(gen int) error { return sh.open() }

func (sh *shared) Leave(gen int) error { return sh.open() }

// open returns os.ErrClosed once the socket is closed.
func (sh *shared) open() error {
	return sh.use(func(int) error { return nil })
}

// use calls f with the socket's descriptor, which stays open until f returns;
// so f must not block. It returns os.ErrClosed if it is closed already.
func (sh *shared) use(f func(raw int) error) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	raw := sh.fd.Raw()
	if raw < 0 {
		return os.ErrClosed
	}
	return f(raw)
}

func (sh *shared) Stats() (st Stats, err error) {
	err = sh.use(func(raw int) error {
		st, err = sh.endpoint.stats(raw)
		st.Repaired = sh.guard.count()
		if err != nil || sh.sink == nil {
			return err
		}
		sunk, err := sh.endpoint.stats(sh.sink.Raw())
		st.Dropped += sunk.Dropped
		return err
	})
	return st, err
}

func (sh *shared) Seats() ([]Seat, error) { return nil, sh.open() }

func (sh *shared) Reconfigure(s Spec) error {
	var old Spec
	if err := sh.use(func(int) error { old = sh.spec; return nil }); err != nil {
		return err
	}
	if err := changeable(old, s); err != nil {
		return err
	}
	owner, err := s.ownershipFrom(old) // may take its time: users come from anywhere
	if err != nil {
		return err
	}
	return sh.use(func(raw int) error {
		if sh.file != nil {
			if err := sh.file.set(owner); err != nil {
				return err
			}
		}
		if s.Backlog == old.Backlog {
			sh.spec = s
			return nil
		}
		if err := s.listen(raw); err != nil {
			return err
		}
		sh.spec = s
		sh.endpoint.reportBacklog(s, raw, sh.log)
		return nil
	})
}

// changeable returns an error that wraps ErrNotChangeable and names the option
// if an open socket of the one spec cannot become one of the other.
func changeable(from, to Spec) error {
	if from.Key() != to.Key() || from.local() && from.Network != to.Network {
		return fmt.Errorf("the address %s, now %s, %w", to.address(), from.address(), ErrNotChangeable)
	}
	from.Mode, to.Mode = from.mode(), to.mode()
	from.V6Only, to.V6Only = from.v6only(), to.v6only()
	if !from.SelfBound() && !to.SelfBound() { // how the next generation gets it is nothing to the socket
		from.Pass = to.Pass
	}
	for _, o := range options() {
		if !o.live && o.get(from) != o.get(to) {
			return fmt.Errorf("option %q %w", o.name, ErrNotChangeable)
		}
	}
	return nil
}

func (sh *shared) Close() error {
	sh.guard.close() // which may need the mutex
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.fd.Raw() < 0 {
		return nil
	}
	// The file goes first: an inode number that is free again proves nothing.
	err := errors.Join(sh.removeFile(), sh.fd.Close())
	if sh.sink != nil {
		err = errors.Join(err, sh.sink.Close())
	}
	return err
}

// removeFile removes the file of a unix path that we bound.
func (sh *shared) removeFile() error {
	if sh.file == nil {
		return nil
	}
	return sh.file.remove()
}

func (sh *shared) PutBack() error {
	return sh.use(func(int) error {
		if sh.file == nil {
			return nil
		}
		if _, _, err := identify(sh.file.path); err != unix.ENOENT {
			return nil
		}
		return sh.file.restore()
	})
}

// cookie returns the kernel's number of the socket, the same for each of its
// descriptors, see SO_COOKIE in socket(7).
func cookie(raw int) (uint64, error) {
	n, err := unix.GetsockoptUint64(raw, unix.SOL_SOCKET, unix.SO_COOKIE)
	return n, os.NewSyscallError("getsockopt SO_COOKIE", err)
}

func (sh *shared) cookie() (n uint64, err error) {
	err = sh.use(func(raw int) error {
		n, err = cookie(raw)
		return err
	})
	return n, err
}
