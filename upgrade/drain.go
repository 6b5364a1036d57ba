package upgrade

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/carry"
)

// end begins to end a generation: what is on its way to it arrives, its connections may end by themselves, those that are
// carried over come between two requests, then it is asked to finish, has until its drain limit, and then its whole tree is killed. One that is being ended already goes
// on as it was.
func (s *Supervisor) end(g *generation, role Role, why string) {
	if g.ending {
		return
	}
	g.ending, g.role, g.why = true, role, why
	if g.watchdog != nil {
		g.watchdog.Stop()
	}
	s.unlearn(g)
	p, told := g.plan, g.telling || g.wasTold()
	before := p.SettleMax + p.Linger
	carries := s.carriesFrom(g, role) && !told
	if carries {
		before += carry.Waits * p.Carry.Wait
	}
	ctx, limit, kill := withDeadline(context.Background(), before+p.DrainTimeout)
	waiting, notFurther := context.WithCancel(ctx)
	unhurried, hurry := context.WithCancel(waiting)
	g.endLimit, g.kill, g.hurry, g.notFurther = limit, kill, hurry, notFurther
	settle := g.served && role == RoleFailed // the handoff has not come to it, or it was the other way round
	began := time.Now()
	g.endBegan = began
	s.attend(func() {
		defer kill()
		s.unpark(g)
		s.retire(ctx, g)
		open := g.open
		if settle && !told {
			open = s.settledAlive(ctx, g)
		}
		left := Unknown
		if role == RoleDraining && !told {
			left = s.linger(unhurried, g)
		}
		var parked *carrying
		if carries && !g.wasParted() {
			parked = s.park(ctx, g)
		}
		if g.wasParted() {
			s.giveBack(parked)
			return
		}
		limit.restart(p.DrainTimeout)
		killed := s.drain(waiting, g, left, open, parked)
		if g.wasParted() { // whether it has ended or not is for the other supervisor to see
			return
		}
		if killed > 0 {
			s.log.Warn("killed what was left of a generation", "generation", g.number, "processes", killed,
				"after", time.Since(began).Round(time.Millisecond).String())
		}
		if err := g.close(); err != nil {
			s.log.Warn("cannot clean up after a generation", "generation", g.number, "cause", err)
		}
		s.post(func() { s.gone(g, began, killed) })
	})
}

// settledAlive blocks until a generation is settled, at most as long as one of its processes is left: after that nobody
// accepts what waits for it, and it has to be passed on.
func (s *Supervisor) settledAlive(parent context.Context, g *generation) []OpenSocket {
	alive, over := context.WithCancel(parent)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := g.process.Tree().Gone(alive); err == nil {
			over()
		}
	}()
	open := s.settled(alive, g.bound, g.number, g.plan.SettleMax, func([]fdpass.Unsettled) {})
	over()
	<-watched
	return open
}

// lingerInterval is the time between two counts of the connections that are left.
const lingerInterval = 100 * time.Millisecond

// linger waits until a generation has no connections any more, at most as long as its configuration says, and returns how many it had
// then, or Unknown.
func (s *Supervisor) linger(parent context.Context, g *generation) (left int) {
	if g.plan.Linger <= 0 || parent.Err() != nil {
		return Unknown
	}
	ctx, cancel := context.WithTimeout(parent, g.plan.Linger)
	defer cancel()
	look := time.NewTicker(lingerInterval)
	defer look.Stop()
	for first := true; ; first = false {
		counts := connections(g.bound, []*generation{g})
		left = counts.of(g)
		if left == 0 {
			break
		}
		if first {
			s.log.Info("the old generation may finish its connections before it is told to stop", "generation", g.number,
				"connections", count(left), "limit", g.plan.Linger.String())
		}
		select {
		case <-g.process.Done():
			return left
		case <-look.C:
			continue
		case <-ctx.Done():
		}
		break
	}
	return left
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

// drain blocks until no process of a generation is left, or it is left to another supervisor, and returns how many
// processes had to be killed. left is how many connections it has, if that is known, open what was still on its way to it, and parked are those of its connections that are
// carried over, or nil.
func (s *Supervisor) drain(ctx context.Context, g *generation, left int, open []OpenSocket, parked *carrying) (killed int) {
	if g.wasTold() { // by the supervisor before this one: a second signal may mean something else to it
		return s.awaitEnd(ctx, g, open)
	}
	s.ask(context.Background(), func() {
		g.telling = true
		s.persist()
	})
	s.logTelling(g, left)
	// A process that is stopped is woken, as systemd does it: it could not act on the signal otherwise.
	for _, sig := range []unix.Signal{g.plan.DrainSignal, unix.SIGCONT} {
		if err := g.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			s.log.Warn("cannot signal a generation", "generation", g.number, "signal", unix.SignalName(sig), "cause", err)
		}
	}
	s.carry(parked)
	close(g.told)
	s.ask(context.Background(), s.persist)
	return s.awaitEnd(ctx, g, open)
}

// logTelling logs that a generation is about to be told to stop, if it has not ended already.
func (s *Supervisor) logTelling(g *generation, left int) {
	select {
	case <-g.process.Done():
		return
	default:
	}
	log := s.log.With("generation", g.number)
	if left != Unknown {
		log = log.With("connections", left)
	}
	log.Info("telling a generation to stop", "release", g.release, "signal", unix.SignalName(g.plan.DrainSignal), "limit", g.plan.DrainTimeout.String(), "cause", g.why)
}

// awaitEnd blocks until no process is left of a generation that was told to stop, and returns how many had to be killed.
func (s *Supervisor) awaitEnd(ctx context.Context, g *generation, open []OpenSocket) (killed int) {
	tree := g.process.Tree()
	g.forward(open, s.log)
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
	if g.wasParted() {
		return 0
	}
	members, err := tree.Members()
	if err == nil {
		// A process that waits for a device does not end, and must not keep the supervisor from being replaced.
		patient, giveUp := context.WithCancel(context.Background())
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			select {
			case <-g.parted:
				giveUp()
			case <-patient.Done():
			}
		}()
		err = tree.Kill(patient)
		giveUp()
		<-watched
	}
	if g.wasParted() {
		return 0
	}
	if err != nil {
		s.log.Error("cannot kill what is left of a generation", "generation", g.number, "cause", err)
	}
	return len(members)
}

// forward sees to it that what still comes to a generation that was told to stop gets to the one that serves.
func (g *generation) forward(open []OpenSocket, log *slog.Logger) {
	for _, o := range open {
		for _, b := range g.bound {
			if b.Spec.FDName() != o.Socket {
				continue
			}
			if err := b.Socket.Forward(g.number); err != nil && !errors.Is(err, os.ErrClosed) {
				log.Warn("connections to a generation that was told to stop cannot be passed on", "socket", o.Socket, "cause", err)
			}
		}
	}
}

// gone takes leave of a generation that has no process any more.
func (s *Supervisor) gone(g *generation, began time.Time, killed int) {
	delete(s.generations, g.number)
	if g.left != nil { // it has ended after part and before letGoOfAll: nobody gets it
		g.left.Close()
	}
	if !g.keepSeat {
		s.leave(departure{g.number, g.bound})
	}
	s.persist()
	e := Ending{
		Generation: g.number, Release: g.release, Role: g.role, Because: g.why, Exit: g.process.Exit().String(), Handoff: g.replacedBy,
		Began: began, Took: time.Since(began), Killed: killed, Probation: g.onProbation,
	}
	s.log.Info("gone", "generation", e.Generation, "release", e.Release, "how", e.Exit, "cause", e.Because, "took", e.Took.Round(time.Millisecond).String())
	s.observe(func(o Observer) { o.GenerationGone(e) })
	s.afterGone(g)
}
