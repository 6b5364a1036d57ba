package upgrade

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// end begins to end a generation: it is asked to finish, has until its drain limit, and then its whole tree is killed.
// One that is being ended already goes on as it was.
func (s *Supervisor) end(g *generation, role Role, why string) {
	if g.ending {
		return
	}
	g.ending, g.role, g.why = true, role, why
	if g.watchdog != nil {
		g.watchdog.Stop()
	}
	ctx, limit, kill := withDeadline(context.Background(), g.plan.DrainTimeout)
	g.endLimit, g.kill = limit, kill
	began := time.Now()
	s.spawn(func() {
		defer kill()
		s.retire(ctx, g)
		if killed := s.drain(ctx, g); killed > 0 {
			s.log.Warn("killed what was left of a generation", "generation", g.number, "processes", killed,
				"after", time.Since(began).Round(time.Millisecond).String())
		}
		if err := g.close(); err != nil {
			s.log.Warn("cannot clean up after a generation", "generation", g.number, "cause", err)
		}
		s.post(func() { s.gone(g, began) })
	})
}

// retire takes leave of the sockets that are not in the configuration any more, while the generation still accepts what
// waits in them.
func (s *Supervisor) retire(parent context.Context, g *generation) {
	ctx, cancel := context.WithTimeout(parent, g.plan.SettleMax)
	defer cancel()
	for _, b := range g.retired {
		if err := b.Socket.Retire(ctx); err != nil {
			s.log.Warn("a socket that has left the configuration was closed with connections waiting", "socket", b.Spec.FDName(), "cause", err)
		}
	}
}

// drain blocks until no process of a generation is left, and returns how many had to be killed.
func (s *Supervisor) drain(ctx context.Context, g *generation) (killed int) {
	tree := g.process.Tree()
	// A process that is stopped is woken, as systemd does it: it could not act on the signal otherwise.
	for _, sig := range []unix.Signal{g.plan.DrainSignal, unix.SIGCONT} {
		if err := g.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			s.log.Warn("cannot signal a generation", "generation", g.number, "signal", unix.SignalName(sig), "cause", err)
		}
	}
	select {
	case <-g.process.Done():
		// Whoever outlives the main process was not told to stop, unless that one told it.
		if err := tree.Signal(g.plan.DrainSignal); err == nil {
			s.log.Debug("the main process has ended, others have not", "generation", g.number)
		}
		if tree.Gone(ctx) == nil {
			return 0
		}
	case <-ctx.Done():
	}
	members, err := tree.Members()
	if err == nil {
		err = tree.Kill(context.Background())
	}
	if err != nil {
		s.log.Error("cannot kill what is left of a generation", "generation", g.number, "cause", err)
	}
	return len(members)
}

// gone takes leave of a generation that has no process any more.
func (s *Supervisor) gone(g *generation, began time.Time) {
	delete(s.generations, g.number)
	if !g.keepSeat {
		s.leave(departure{g.number, g.bound})
	}
	s.log.Info("gone", "generation", g.number, "release", g.release, "because", g.why,
		"took", time.Since(began).Round(time.Millisecond).String())
}
