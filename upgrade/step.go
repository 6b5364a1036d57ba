package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// A step is the part of a handoff that runs now, in a goroutine of its own.
type step struct {
	phase  Phase
	began  time.Time
	cancel context.CancelFunc
	done   chan struct{} // closed when it is over
	limit  *deadline     // what the service may ask to be moved away; nil in steps where it may not
	empty  bool          // there is nothing to do, and so nothing to tell
}

// A work is the blocking part of a step. What it returns is run by the owner, whether the step succeeded or not: what
// was opened or started has to be known to somebody.
type work func() (result func(), err error)

// runStep runs the step that the phase is named after.
func (s *Supervisor) runStep() {
	h, phase := s.hand, s.state.Phase
	h.record.Phase = phase.String()
	ctx, cancel := context.WithCancel(context.Background())
	st := &step{phase: phase, began: time.Now(), cancel: cancel, done: make(chan struct{})}
	s.step = st
	run := s.workOf(ctx, h, st)
	if run == nil {
		st.empty, run = true, func() (func(), error) { return nil, nil }
	}
	s.spawn(func() {
		result, err := run()
		close(st.done)
		cancel()
		s.post(func() { s.stepEnded(h, st, result, err) })
	})
}

// workOf says what a step does; nil means nothing. It runs on the owner's goroutine, and so may look at everything; the
// work that it returns has only what it took along.
func (s *Supervisor) workOf(ctx context.Context, h *handoff, st *step) work {
	switch st.phase {
	case Holding:
		return s.hold(ctx, h)
	case Resolving:
		return s.resolve(h)
	case Checking:
		return s.check(ctx, h)
	case Opening:
		return s.open(h)
	case Starting:
		return s.start(ctx, h)
	case Warming:
		return s.warm(ctx, h, st)
	case Cutting:
		return s.cut(h)
	case Settling:
		return s.settle(ctx, h)
	}
	panic("upgrade: phase " + st.phase.String() + " has no step")
}

// stepEnded takes a step's result over, unless the step was given up meanwhile.
func (s *Supervisor) stepEnded(h *handoff, st *step, result func(), err error) {
	if s.step != st {
		return
	}
	s.letGo()
	if result != nil {
		result()
	}
	if !st.empty {
		took := time.Since(st.began)
		h.record.Steps = append(h.record.Steps, StepTime{Name: st.phase.String(), Took: took})
		h.report(st.phase, took, err)
	}
	if err != nil {
		h.record.Reason, h.cause = err.Error(), err
		s.fire(StepFailed)
		return
	}
	s.fire(StepDone)
}

// giveUpStep ends a step that only waits, and returns when it has let go of the sockets.
func (s *Supervisor) giveUpStep() {
	if st := s.step; st != nil {
		st.cancel()
		<-st.done
		s.letGo()
	}
}

// letGo notes that no step runs, and gives up the seats that one has kept.
func (s *Supervisor) letGo() {
	s.step = nil
	leaving := s.leaving
	s.leaving = nil
	for _, d := range leaving {
		s.leave(d)
	}
}

func (s *Supervisor) hold(ctx context.Context, h *handoff) work {
	hold := s.opts.SignalHold
	select {
	case <-h.joined:
		return nil
	default:
	}
	if hold <= 0 {
		return nil
	}
	return func() (func(), error) {
		timer := time.NewTimer(hold)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-h.joined:
		case <-ctx.Done():
		}
		return nil, nil
	}
}

func (s *Supervisor) resolve(h *handoff) work {
	plan, load, number := h.plan, s.opts.Load, s.number+1
	if plan == nil {
		h.read = bootTicks()
	}
	return func() (func(), error) {
		var err error
		if plan == nil {
			if plan, err = load(); err != nil {
				return nil, err
			}
		}
		prepared, err := plan.Prepare(number)
		return func() {
			h.plan, h.prepared = plan, prepared
			if prepared != nil {
				h.record.ToRelease = prepared.Release
			}
		}, err
	}
}

func (s *Supervisor) check(parent context.Context, h *handoff) work {
	check, limit := h.prepared.Check, h.plan.CheckTimeout
	if check == nil {
		return nil
	}
	return func() (func(), error) {
		ctx, cancel := context.WithTimeout(parent, limit)
		defer cancel()
		exit, err := s.opts.Reaper.Run(ctx, *check)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("the check command %s did not end within %s", check.Path, limit)
		case err != nil:
			return nil, fmt.Errorf("the check command: %w", err)
		case !exit.Success():
			return nil, fmt.Errorf("the check command %s ended (%s); its output, in the supervisor's log, says why", check.Path, exit)
		}
		return nil, nil
	}
}

func (s *Supervisor) open(h *handoff) work {
	specs, places := h.plan.Sockets, h.plan.Places
	o := fdpass.OpenOptions{Have: s.bound, FromSystemd: s.opts.Systemd, Log: s.log}
	return func() (func(), error) {
		bound, fresh, err := fdpass.Open(specs, o)
		var failed *fdpass.OpenError
		if errors.As(err, &failed) {
			if i := slices.Index(specs, failed.Spec); i >= 0 && i < len(places) {
				err = fmt.Errorf("%s: %w", places[i], err)
			}
		}
		for _, b := range fresh {
			s.log.Info("opened", "socket", b.Spec.FDName(), "address", b.Socket.Addr(), "mode", string(b.Socket.Mode()))
		}
		return func() { h.bound, h.fresh = bound, fresh }, err
	}
}

func (s *Supervisor) start(ctx context.Context, h *handoff) work {
	s.number++
	number, heirOf := s.number, 0
	if s.live == nil {
		heirOf = s.orphan
	}
	h.record.To, h.heir = number, heirOf != 0
	bound, prepared, fresh := h.bound, h.prepared, set(h.fresh)
	g := &generation{
		number: number, release: prepared.Release, bound: bound, plan: h.plan, role: RoleNew,
		notified: make(chan struct{}),
	}
	return func() (func(), error) {
		var seats []child.NamedFD
		defer func() {
			for _, seat := range seats {
				seat.FD.Close()
			}
		}()
		for _, b := range bound {
			from := heirOf
			if fresh[b.Socket] { // nobody has crashed on it
				from = 0
			}
			fd, err := b.Socket.Join(number, from)
			if err != nil {
				return nil, fmt.Errorf("socket %s: %w", b.Spec.FDName(), err)
			}
			seats = append(seats, child.NamedFD{Name: b.Spec.FDName(), FD: fd})
			var st unix.Stat_t
			if err := unix.Fstat(fd.Raw(), &st); err != nil {
				return nil, os.NewSyscallError("fstat", err)
			}
			g.inodes = append(g.inodes, st.Ino)
		}
		if err := g.start(ctx, s.opts, prepared, seats); err != nil {
			return nil, err
		}
		return func() { s.adopt(h, g) }, nil
	}
}

// adopt takes over a generation whose process has just been started.
func (s *Supervisor) adopt(h *handoff, g *generation) {
	h.gen = g
	s.generations[g.number] = g
	s.log.Info("started", "generation", g.number, "release", g.release, "pid", g.process.Pid())
	s.watch(g)
}

func (s *Supervisor) warm(parent context.Context, h *handoff, st *step) work {
	g := h.gen
	ctx, limit, cancel := withDeadline(parent, h.plan.ReadyTimeout)
	st.limit = limit
	return func() (func(), error) {
		defer cancel()
		err := g.waiter.Wait(ctx, g.process)
		var exited *child.ExitedError
		var late *child.NotReadyError
		if errors.As(err, &late) {
			late.Waited = limit.granted() // and not how late a busy machine has noticed
		}
		if errors.As(err, &exited) {
			err = errors.New(g.earlyExit())
		} else if err != nil {
			err = fmt.Errorf("generation %d: %w", g.number, err)
		} else {
			err = s.holdsItsSockets(ctx, g)
		}
		return func() { g.ready = time.Now() }, err
	}
}

// holdsItsSockets looks whether a generation that says it is ready can be: clients of one that has closed its sockets
// would wait for ever. One that has closed some of them is told of in the log.
func (s *Supervisor) holdsItsSockets(ctx context.Context, g *generation) error {
	held, known, err := g.process.Tree().Holds(g.inodes)
	if err != nil || !known || len(held) == 0 {
		return err
	}
	if !slices.Contains(held, true) {
		if g.process.Exiting() { // the kernel has closed them, and not the service
			select {
			case <-g.process.Done():
				return errors.New(g.earlyExit())
			case <-ctx.Done(): // its other threads run on
			}
		}
		return fmt.Errorf("generation %d says that it is ready, but has closed the sockets that it was given (they are its descriptors from 3 on)", g.number)
	}
	for i, ok := range held {
		if !ok {
			s.log.Warn("the new generation has closed a socket: nobody accepts from it", "generation", g.number, "socket", g.bound[i].Spec.FDName())
		}
	}
	return nil
}

func (s *Supervisor) cut(h *handoff) work {
	bound, number := h.bound, h.gen.number
	return func() (func(), error) {
		for _, b := range bound {
			if err := b.Socket.Cutover(number); err != nil {
				return nil, fmt.Errorf("socket %s: move new connections: %w", b.Spec.FDName(), err)
			}
		}
		return nil, nil
	}
}

func (s *Supervisor) settle(parent context.Context, h *handoff) work {
	if s.live == nil {
		return nil
	}
	old, bound, limit := s.live.number, s.bound, h.plan.SettleMax
	return func() (func(), error) {
		open, err := fdpass.Settle(parent, bound, old, limit)
		if err != nil && parent.Err() == nil {
			s.log.Warn("the kernel does not tell about connections; accept queues are all that settling has looked at", "cause", err)
		}
		for i, u := range open {
			if !u.Quiet() {
				s.log.Warn("the old generation did not get quiet", "generation", old, "socket", bound[i].Spec.FDName(),
					"limit", limit.String(), "open", fmt.Sprintf("%+v", u))
			}
		}
		return nil, nil
	}
}
