package upgrade

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// A step is the part of a handoff that runs now, in a goroutine of its own.
type step struct {
	phase  Phase
	began  time.Time
	cancel context.CancelFunc
	done   chan struct{} // closed when it is over
	early  chan struct{} // closed when it need not wait any longer
	limit  *deadline     // what the service may ask to be moved away; nil in steps where it may not
	empty  bool          // there is nothing to do, and so nothing to tell
	waits  string        // what it waits for, for those who watch; "" if it is empty
}

// A work is the blocking part of a step. What it returns is run by the owner, whether the step succeeded or not: what
// was opened or started has to be known to somebody.
type work func() (result func(), err error)

// runStep runs the step that the phase is named after.
func (s *Supervisor) runStep() {
	h, phase := s.hand, s.state.Phase
	h.record.Phase, h.note = phase.String(), ""
	ctx, cancel := context.WithCancel(context.Background())
	st := &step{phase: phase, began: time.Now(), cancel: cancel, done: make(chan struct{}), early: make(chan struct{})}
	s.step = st
	run := s.workOf(ctx, h, st)
	if run == nil {
		st.empty, run = true, func() (func(), error) { return nil, nil }
	} else {
		s.wait(h, st, cmp.Or(st.waits, s.waitsFor(h, phase)))
	}
	s.persist() // before anything of it happens
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
		return s.start(ctx, h, st)
	case Warming:
		return s.warm(ctx, h, st)
	case Probing:
		return s.probe(ctx, h)
	case Approving:
		return s.beforeCutover(ctx, h)
	case Sharing:
		return s.share(ctx, h, st)
	case Cutting:
		return s.cut(h)
	case Settling:
		return s.settle(ctx, h, st)
	case Soaking:
		return s.soak(ctx, h, st)
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
	if h.aborted != "" { // whatever came of the step
		err = errors.New(h.aborted)
	}
	if !st.empty || err != nil {
		took := time.Since(st.began)
		h.record.Steps = append(h.record.Steps, StepTime{Name: st.phase.String(), Took: took})
		h.report(st.phase, took, err)
		if err == nil { // else that is said with the handoff's end
			s.logStep(h, st.phase, took)
		}
	}
	if err != nil {
		h.record.Reason, h.cause = err.Error(), err
		s.fire(StepFailed)
		return
	}
	s.fire(StepDone)
}

// hasten ends the wait of a step that only waits.
func (s *Supervisor) hasten() {
	if st := s.step; st != nil {
		select {
		case <-st.early:
		default:
			close(st.early)
		}
	}
}

// abort ends the step that runs. It fails then, whatever it has come to.
func (s *Supervisor) abort() {
	if s.step != nil {
		s.step.cancel()
	}
}

// giveUpStep ends a step that only waits, and returns when it has let go of the sockets.
func (s *Supervisor) giveUpStep() {
	if st := s.step; st != nil {
		st.cancel()
		for over := false; !over; {
			select {
			case <-st.done:
				over = true
			case f := <-s.inbox: // it may be what the step waits to be rid of
				s.deferred = append(s.deferred, f)
			}
		}
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
