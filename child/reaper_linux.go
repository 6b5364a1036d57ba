package child

import (
	"fmt"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// A Reaper starts processes and is the one place where they are waited for. A
// supervisor has one, and nobody else in it starts or waits for processes, but
// under HoldStrays.
//
// It owns one goroutine, which Close ends. All methods may be called from several
// goroutines at once.
type Reaper struct {
	ownOnly bool

	// mu is also held from before a fork until the child is in children, so that
	// no child can be waited for before it is known.
	mu       sync.Mutex
	children map[int]*Process // those not waited for yet
	holds    int
	strays   uint64
	closed   bool
	noClone3 bool // this kernel, or a seccomp filter, has refused it

	signals chan os.Signal
	stop    chan struct{}
	stopped chan struct{}
}

// ReaperOptions are what NewReaper may be told. The zero value is for a
// supervisor.
type ReaperOptions struct {
	// OwnChildrenOnly leaves alone what the Reaper did not start: this process
	// does not become a subreaper, and other children of it are not waited for.
	// It is for programs in which others start processes too. Any number of such
	// Reapers may exist.
	OwnChildrenOnly bool
}

// NewReaper begins to wait for the children of this process. But for
// OwnChildrenOnly, this process becomes the one that orphaned descendants fall
// to (PR_SET_CHILD_SUBREAPER), which process 1 is anyway, and children that the
// Reaper did not start are waited for and counted.
func NewReaper(o ReaperOptions) (*Reaper, error) {
	r := &Reaper{
		ownOnly:  o.OwnChildrenOnly,
		children: make(map[int]*Process),
		signals:  make(chan os.Signal, 1),
		stop:     make(chan struct{}),
		stopped:  make(chan struct{}),
	}
	if !r.ownOnly && os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("become the parent of orphans: %w", os.NewSyscallError("prctl", err))
		}
	}
	// With a handler the signal is neither ignored nor blocked, whatever was
	// inherited: ignored, the kernel itself would wait for the children, see
	// wait(2). One place in the channel is enough, as each signal makes us look
	// at all children.
	signal.Notify(r.signals, unix.SIGCHLD)
	go r.loop()
	return r, nil
}

// Close ends the waiting, and returns once the goroutine has ended. It should
// come last: processes that still run go on, but nobody waits for them and their
// Done channels stay open. Orphans still fall to this process. Closing again does
// nothing.
func (r *Reaper) Close() error {
	r.mu.Lock()
	closed := r.closed
	r.closed = true
	r.mu.Unlock()
	if closed {
		return nil
	}
	signal.Stop(r.signals)
	close(r.stop)
	<-r.stopped
	return nil
}

// HoldStrays stops the waiting for children that the Reaper did not start, for
// somebody who starts a process by other means and waits for it himself. It ends
// when release was called by everybody who holds; calling it again does nothing.
// Those that have ended meanwhile are waited for then.
func (r *Reaper) HoldStrays() (release func()) {
	r.mu.Lock()
	r.holds++
	r.mu.Unlock()
	return sync.OnceFunc(func() {
		r.mu.Lock()
		r.holds--
		r.mu.Unlock()
		r.reap()
	})
}

// Strays returns how many children were waited for that the Reaper did not
// start: orphans, mostly, of services whose parents have gone.
func (r *Reaper) Strays() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.strays
}

func (r *Reaper) loop() {
	defer close(r.stopped)
	r.reap() // of those who ended before there was a handler
	for {
		select {
		case <-r.stop:
			return
		case <-r.signals:
			r.reap()
		}
	}
}

// reap waits for all children that have ended.
func (r *Reaper) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if r.ownOnly || r.holds > 0 {
		r.reapKnownLocked()
		return
	}
	for {
		pid, status, err := waitChild(-1)
		if err != nil {
			// There are no children, so those that we know of were waited for by
			// somebody who should not have.
			r.reapKnownLocked()
			return
		}
		if pid == 0 {
			return
		}
		p := r.children[pid]
		if p == nil {
			r.strays++
			continue
		}
		delete(r.children, pid)
		p.ended(exitOf(status))
	}
}

// reapKnownLocked asks for each child by its number, which stands for nothing
// else as long as the child was not waited for.
func (r *Reaper) reapKnownLocked() {
	for pid, p := range r.children {
		got, status, err := waitChild(pid)
		switch {
		case err != nil: // somebody else has waited for it
			delete(r.children, pid)
			p.ended(Exit{})
		case got == pid:
			delete(r.children, pid)
			p.ended(exitOf(status))
		}
	}
}

// waitChild is wait4(2) without blocking; pid is 0 if none has ended.
func waitChild(which int) (pid int, status unix.WaitStatus, err error) {
	pid, err = ignoringEINTR(func() (int, error) { return unix.Wait4(which, &status, unix.WNOHANG, nil) })
	return pid, status, err
}
