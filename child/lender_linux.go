package child

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// A lender answers bind(2) and listen(2) of a program and all that descends from it: where the
// address is one of a socket that was offered, the program gets that socket, and the kernel does
// not see the call. All other calls go on untouched. It is no sandbox: the program could change
// what was looked at before the kernel acts upon it, and would gain nothing but what it could have
// asked for at once.
//
// A lender owns its descriptors and one goroutine, which ends by itself when no process is left that
// uses the filter. A call that comes while there is none waits as long as somebody has the listener,
// and fails with ENOSYS after that.
type lender struct {
	log      *slog.Logger
	listener *os.File // owned; it does not block, so that the runtime polls it
	conn     syscall.RawConn
	offers   []*lent
	serving  sync.WaitGroup
	closing  atomic.Bool // it may have calls to answer all the time

	mu      sync.Mutex
	taken   chan struct{} // closed when everything was taken
	instead []string      // see NotBoundError
	told    map[string]bool
}

// A lent is an Offer as a lender has it.
type lent struct {
	Offer        // FD is owned
	inode uint64 // of the socket
}

// newLender takes the descriptor listener, and begins to answer. The offers are borrowed.
func newLender(listener int, offers []Offer, log *slog.Logger) (_ *lender, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	// Whoever shares it polls it, too.
	if err := unix.SetNonblock(listener, true); err != nil {
		unix.Close(listener)
		return nil, os.NewSyscallError("fcntl", err)
	}
	l := &lender{log: log, listener: os.NewFile(uintptr(listener), "seccomp listener"), taken: make(chan struct{}), told: make(map[string]bool)}
	defer func() {
		if err != nil {
			l.release()
		}
	}()
	if l.conn, err = l.listener.SyscallConn(); err != nil {
		return nil, err
	}
	own, err := duplicates(offers)
	if err != nil {
		return nil, err
	}
	for _, o := range own {
		l.offers = append(l.offers, &lent{Offer: o})
	}
	for _, o := range l.offers {
		var st unix.Stat_t
		if err := unix.Fstat(o.FD.Raw(), &st); err != nil {
			return nil, os.NewSyscallError("fstat", err)
		}
		o.inode = st.Ino
	}
	l.count()
	l.serving.Add(1)
	go func() {
		defer l.serving.Done()
		l.serve()
	}()
	return l, nil
}

// close stops answering.
func (l *lender) close() {
	if l == nil {
		return
	}
	l.closing.Store(true)
	l.listener.Close()
	l.serving.Wait()
	l.release()
}

// release closes everything.
func (l *lender) release() {
	l.listener.Close()
	for _, o := range l.offers {
		o.FD.Close()
	}
}

// duplicate returns a duplicate of the listener, which the caller owns.
func (l *lender) duplicate() (fd *fdpass.FD, err error) {
	var raw int
	e := l.conn.Control(func(own uintptr) { raw, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 3) })
	if err = errors.Join(e, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)); err != nil {
		return nil, err
	}
	return fdpass.NewFD(raw), nil
}

// serve answers until close, or until nobody uses the filter any more.
func (l *lender) serve() {
	_ = l.conn.Read(func(fd uintptr) bool {
		listener := int(fd)
		for {
			events := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
			_, err := unix.Poll(events, 0)
			switch {
			case err == unix.EINTR:
				continue
			case err != nil:
				l.log.Error("the service's calls of bind(2) are not answered any more", "cause", os.NewSyscallError("poll", err))
				return true
			case events[0].Revents&unix.POLLIN != 0:
				l.next(listener)
				if l.closing.Load() {
					return true
				}
				continue
			}
			return events[0].Revents != 0 // POLLHUP: nobody is left
		}
	})
	for _, o := range l.offers {
		o.FD.Close()
	}
}

// next answers one call.
func (l *lender) next(listener int) {
	n, err := receive(listener)
	if err != nil {
		return // it was killed meanwhile; what else there may be, poll(2) will say
	}
	handled, err := l.handle(listener, n)
	switch {
	case errors.Is(err, errNotWaiting):
		return // it was killed, or interrupted by a signal: then it calls again
	case err != nil:
		l.tell(fmt.Sprintf("%s has called bind(2), and it cannot be seen for which address: %v; %s", caller(n.pid), err, whyUnseen))
	}
	if handled {
		err = n.succeed(listener)
	} else {
		err = n.goOn(listener)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINPROGRESS) {
		l.log.Error("a call of bind(2) cannot be answered", "cause", err)
	}
}

// whyUnseen is what is most often behind it.
const whyUnseen = "the supervisor needs the right to trace the service (CAP_SYS_PTRACE if it runs as another user, and kernel.yama.ptrace_scope below 2)"

// errNotWaiting is a call that waits no more for an answer.
var errNotWaiting = errors.New("the call does not wait any more")

// compare notes what a program binds that it has most likely got from elsewhere than the
// configuration.
func (l *lender) compare(c caller, asked fdpass.Asked) {
	for _, o := range l.offers {
		if o.Bound.Resembles(asked) {
			l.tell(fmt.Sprintf("%s binds %s itself, and socket %s is %s; if it is meant to be the same, write listen = %q",
				c, asked, o.name(), o.Bound.Socket.Addr(), asked))
		}
	}
}

// tell tells the log, once, and whoever waits for the sockets to be taken.
func (l *lender) tell(text string) {
	l.mu.Lock()
	fresh := !l.told[text] && len(l.told) < 100 // a program can make any number of them
	if fresh {
		l.told[text] = true
		l.instead = append(l.instead, text)
	}
	l.mu.Unlock()
	if fresh {
		l.log.Warn(text)
	}
}

// count sees whether everything was taken.
func (l *lender) count() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(l.offers, func(o *lent) bool { return !o.Taken }) {
		return
	}
	select {
	case <-l.taken:
	default:
		close(l.taken)
	}
}

// missing returns the error for what was not taken, because of err.
func (l *lender) missing(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &NotBoundError{Instead: slices.Clone(l.instead), Err: err}
	for _, o := range l.offers {
		if !o.Taken {
			e.Sockets = append(e.Sockets, fmt.Sprintf("%s (%s)", o.name(), o.Bound.Socket.Addr()))
		}
	}
	return e
}
