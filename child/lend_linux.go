package child

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// Lend begins to answer, for a process that another supervisor has started with these offers, its
// calls of bind(2). listener is what Listener has returned there, and borrowed, as are the offers'
// descriptors. It is for a Process that has no listener, before others use it.
func (p *Process) Lend(listener *fdpass.FD, offers []Offer, log *slog.Logger) error {
	if err := checkOffers(offers); err != nil {
		return err
	}
	own, err := listener.Dup()
	if err != nil {
		return err
	}
	p.lender, err = newLender(own.Disown(), offers, log)
	return err
}

// lend begins to answer for a process that was just started. It takes the listener, which is -1
// where the command has no offers.
func (p *Process) lend(listener int, c *Command) (err error) {
	switch {
	case listener >= 0:
		p.lender, err = newLender(listener, c.Offers, c.Log)
	case len(c.Offers) > 0: // then the kernel has left the descriptor out
		err = errors.New("the supervisor has too many files open (RLIMIT_NOFILE) to be told of its calls of bind(2)")
	}
	return err
}

// Listener returns a duplicate, which the caller owns, of the descriptor by which the kernel tells
// of the process's calls of bind(2), see seccomp_unotify(2). It is os.ErrNotExist if the process
// was offered no sockets. As long as somebody has one, calls wait; then they fail with ENOSYS.
func (p *Process) Listener() (*fdpass.FD, error) {
	if p.lender == nil {
		return nil, os.ErrNotExist
	}
	return p.lender.duplicate()
}

// Bound blocks until the process has got every socket that it was offered. It returns an
// *ExitedError as soon as it has ended, and a *NotBoundError with the cause of ctx when that ends.
func (p *Process) Bound(ctx context.Context) error {
	if p.lender == nil {
		return nil
	}
	select {
	case <-p.lender.taken:
		return nil
	case <-p.done:
		return exited(p)
	case <-ctx.Done():
		return p.lender.missing(context.Cause(ctx))
	}
}

// Took reports whether the process has got the socket, which it was offered. After a Lend it is so
// for what was offered as taken.
func (p *Process) Took(b fdpass.Bound) bool {
	if p.lender == nil {
		return false
	}
	p.lender.mu.Lock()
	defer p.lender.mu.Unlock()
	return slices.ContainsFunc(p.lender.offers, func(o *lent) bool { return o.Bound.Socket == b.Socket && o.Taken })
}

// Unbound returns what is missing, as Bound would; nil if nothing is. It does not block.
func (p *Process) Unbound() error {
	if p.lender == nil {
		return nil
	}
	select {
	case <-p.lender.taken:
		return nil
	default:
		return p.lender.missing(nil)
	}
}
