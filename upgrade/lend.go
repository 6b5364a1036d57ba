package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// A lot is what a generation gets of the sockets: those that it inherits, and those that it is to bind itself. It owns the
// descriptors.
type lot struct {
	inherited []child.NamedFD
	offers    []child.Offer
}

// add takes fd, the generation's part in a socket. alone says that nobody else has it.
func (l *lot) add(b fdpass.Bound, fd *fdpass.FD, alone bool) {
	if b.Spec.Pass == fdpass.PassAdopt {
		l.offers = append(l.offers, child.Offer{Bound: b, FD: fd, Alone: alone})
		return
	}
	l.inherited = append(l.inherited, child.NamedFD{Name: b.Spec.FDName(), FD: fd, Address: b.Socket.Addr()})
}

func (l *lot) close() {
	for _, s := range l.inherited {
		s.FD.Close()
	}
	for _, o := range l.offers {
		o.FD.Close()
	}
}

// exclusive reports of each socket whether the next generation will be the only one that has its part in it. A steered part is
// always its own; one that a crashed generation has left is, too.
func (s *Supervisor) exclusive(bound []fdpass.Bound) []bool {
	alone := make([]bool, len(bound))
	for i, b := range bound {
		alone[i] = b.Socket.Mode() == fdpass.Steered || !slices.ContainsFunc(s.sorted(), func(g *generation) bool { return g.has(b.Socket) })
	}
	return alone
}

// has reports whether the generation has, or may have, a descriptor of a socket.
func (g *generation) has(socket fdpass.Socket) bool {
	return slices.ContainsFunc(g.bound, func(b fdpass.Bound) bool {
		return b.Socket == socket && (b.Spec.Inherited() || g.adopted || g.process.Took(b))
	})
}

// unbound returns what the generation was offered and has not bound; nil for nothing.
func (g *generation) unbound() error {
	if g.process == nil {
		return nil
	}
	return g.process.Unbound()
}

// withUnbound adds to an error what the generation has not bound: that is most often behind it.
func (g *generation) withUnbound(err error) error {
	if missing := g.unbound(); missing != nil {
		return fmt.Errorf("%w; %w", err, missing)
	}
	return err
}

// awaitBound waits until a generation that says it is ready has bound what it was offered: before that, clients would wait for
// nobody.
func (g *generation) awaitBound(ctx context.Context, limit *deadline) error {
	err := g.process.Bound(ctx)
	var exited *child.ExitedError
	var missing *child.NotBoundError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exited):
		return errors.New(g.earlyExit())
	case errors.As(err, &missing) && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("generation %d says that it is ready, but %w (ready.timeout is %s)", g.number, err, limit.granted())
	}
	return context.Cause(ctx)
}

const listenerPrefix = fdpass.IDPrefix + "adopt-"

// listenerID is the name under which the descriptor is kept by which a generation's calls of bind(2) are answered.
func listenerID(generation int) string { return listenerPrefix + strconv.Itoa(generation) }

// keepListenerLocked has that descriptor kept, where there is one, and notes it in wanted: calls that come while there is no
// supervisor wait for the next one then, and do not fail.
func (k *keeper) keepListenerLocked(g *generation, wanted map[string]bool) {
	fd, err := g.process.Listener()
	if err != nil {
		return // it was offered nothing, or is just gone
	}
	defer fd.Close()
	id := listenerID(g.number)
	wanted[id] = true
	if k.kept[id] {
		return
	}
	if err := k.store.Store(id, fd); err != nil {
		k.warn(err)
		return
	}
	k.kept[id] = true
}

// lend goes on answering a generation's calls of bind(2).
func (r *recovery) lend(g *generation) {
	s := r.s
	var given lot
	defer given.close()
	for _, b := range g.bound {
		if b.Spec.Pass != fdpass.PassAdopt || !seated(b.Socket, g.number) {
			continue
		}
		fd, err := b.Socket.Join(g.number, 0)
		if err != nil {
			s.log.Warn("a generation cannot bind a socket any more", "generation", g.number, "socket", b.Spec.FDName(), "cause", err)
			continue
		}
		given.add(b, fd, false)
	}
	listener := s.opts.Stored[listenerID(g.number)]
	if len(given.offers) == 0 && listener == nil {
		return
	}
	err := os.ErrNotExist
	if listener != nil {
		for i := range given.offers {
			given.offers[i].Taken = true // whether it has or not: nobody waits for it
		}
		err = g.process.Lend(listener, given.offers, s.log.With("generation", g.number))
	}
	if err != nil {
		s.log.Warn("nobody answers calls of bind(2) of a generation any more: they fail until the next one is there; under systemd, "+
			"FileDescriptorStoreMax= keeps what it takes", "generation", g.number, "cause", err)
	}
}

// seated reports whether a generation has its part in a socket still. To join would make another one.
func seated(socket fdpass.Socket, generation int) bool {
	if socket.Mode() != fdpass.Steered {
		return true
	}
	seats, err := socket.Seats()
	return err == nil && slices.ContainsFunc(seats, func(s fdpass.Seat) bool { return s.Generation == generation })
}
