package upgrade

import (
	"context"
	"fmt"
	"slices"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// apart reports whether a socket of these may not be had by two generations at the same time.
func apart(bound []fdpass.Bound) bool {
	return slices.ContainsFunc(bound, func(b fdpass.Bound) bool { return b.Spec.Apart })
}

// stopFirst ends the live generation before the new one is started, which takes its seats, and returns it. There is no way
// back then but to start the old version again, which a handoff that fails with nothing live does.
func (s *Supervisor) stopFirst() *generation {
	old := s.live
	s.log.Info("the live generation is stopped first, since a socket has overlap = false", "generation", old.number)
	s.live, s.orphan, old.keepSeat = nil, old.number, true
	s.down = fmt.Sprintf("generation %d was stopped first, since a socket has overlap = false", old.number)
	s.end(old, RoleDraining, "its successor may not have the same sockets at the same time")
	s.fire(LiveExited)
	return old
}

// awaitGone blocks until a generation has no process any more, or ctx ends.
func awaitGone(ctx context.Context, g *generation) error {
	if err := g.process.Tree().Gone(ctx); err != nil {
		return ctx.Err()
	}
	return nil
}
