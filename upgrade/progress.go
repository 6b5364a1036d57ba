package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// Outcome is how a handoff ended.
type Outcome string

// The outcomes.
const (
	OutcomeDone   Outcome = "done"   // the new generation is live
	OutcomeFailed Outcome = "failed" // it was given up; the old one, if there was one, serves on
)

// A Record tells of one handoff, from its beginning to the moment the new generation was live or given up.
type Record struct {
	Handoff int       `json:"handoff"`           // numbered from 1
	Kind    Kind      `json:"kind,omitempty"`    // "" in what a supervisor has written that did not know of kinds
	Restart bool      `json:"restart,omitempty"` // nobody asked: the service was started, or had crashed
	Began   time.Time `json:"began"`
	By      []string  `json:"by,omitempty"` // who asked

	From        int    `json:"from,omitempty"` // the generation that was live; 0 if none
	To          int    `json:"to,omitempty"`   // the generation that was started; 0 if it did not come to that
	FromRelease string `json:"from_release,omitempty"`
	ToRelease   string `json:"to_release,omitempty"`

	Outcome Outcome    `json:"outcome,omitempty"` // "" while it runs
	Phase   string     `json:"phase,omitempty"`   // that runs, or in which it failed
	Reason  string     `json:"reason,omitempty"`  // why it failed
	Steps   []StepTime `json:"steps,omitempty"`   // that ended, in order
	// Unsettled is what was still on its way to the old generation when it was told to stop all the same.
	Unsettled []OpenSocket  `json:"unsettled,omitempty"`
	Took      time.Duration `json:"took_ns,omitempty"` // all together
	// Carried is what became of the old generation's kept-alive connections, so far; nil where none were to be carried over.
	Carried *Carried `json:"carried,omitempty"`
	// Hooks are the commands that were run when the new generation was live.
	Hooks []HookResult `json:"hooks,omitempty"`
}

// StepTime is how long a step took.
type StepTime struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took_ns"`
}

// OpenSocket is a socket on which something was still on its way to a generation that had to be quiet.
type OpenSocket struct {
	Socket string `json:"socket"`
	fdpass.Unsettled
}

// A HandoffError says that a handoff failed. The old generation, if there was one, serves on.
type HandoffError struct {
	Record Record
}

// Error returns the reason.
func (e *HandoffError) Error() string {
	return fmt.Sprintf("handoff %d failed at step %s: %s", e.Record.Handoff, e.Record.Phase, e.Record.Reason)
}

// Progress is a step that has ended, or one that goes on, with what it waits for or a note, as who asked for the handoff gets
// to see it.
type Progress struct {
	Handoff    int           `json:"handoff"`
	Step       string        `json:"step"`
	Generation int           `json:"generation,omitempty"`
	Took       time.Duration `json:"took_ns"` // so far, of a step that goes on
	Error      string        `json:"error,omitempty"`
	Note       string        `json:"note,omitempty"`
	// Waits is what a step that has begun, or goes on, waits for; "" for one that has ended. It is told when the step begins,
	// and again when it changes.
	Waits string `json:"waits,omitempty"`
}

// Ended reports whether the step is over.
func (p Progress) Ended() bool { return p.Waits == "" && p.Note == "" }

// A Request asks for a handoff.
type Request struct {
	By     string // who asks, for the record: "uid 0", "signal"
	Signal bool   // it came as a signal, and another request that belongs to it may follow

	Kind    Kind   // KindReload, also if it is ""; KindDeploy and KindRollback are for Deploy
	Release string // that is wanted; "" of a rollback for the last good one
	Again   bool   // also if that release is live

	// Since is a time from which on whoever asks has wanted this, in clock ticks since boot as /proc/PID/stat has it; 0 if
	// there is none but now. A handoff that has read the configuration later than that is the answer to the request,
	// even if it began before the request came, or is over: systemd 253 to 258 send a reload signal and then start the
	// command that asks.
	Since uint64
}

// bootTicks is now in the unit and with the origin of Request.Since.
func bootTicks() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	const perSecond = 100 // USER_HZ, the same on every Linux that Go runs on
	return uint64(ts.Nano()) / (uint64(time.Second) / perSecond)
}

// A ticket is a request and how it gets its answer.
type ticket struct {
	request Request
	steps   chan Progress // closed with the answer; nil if nobody waits for one
	record  *Record       // set before steps is closed
	err     error         // likewise
}

// progressRoom is more than the steps of the two handoffs that one request may see.
const progressRoom = 64

// Reload asks for a handoff, and blocks until it has succeeded or failed, or ctx ends; the handoff itself goes on then.
// If one is under way that has begun to read the configuration, exactly one more follows it, which serves all who asked
// meanwhile. Each step that begins, and each that ends, is reported to progress, which may be nil, on the caller's goroutine.
//
// The error is *HandoffError, ErrStopping or the context's.
func (s *Supervisor) Reload(ctx context.Context, r Request, progress func(Progress)) (*Record, error) {
	t := &ticket{request: r, steps: make(chan Progress, progressRoom)}
	if !s.post(func() { s.take(t) }) {
		return nil, s.unavailable()
	}
	return s.await(ctx, t, progress)
}

// await waits for the answer to a ticket.
func (s *Supervisor) await(ctx context.Context, t *ticket, progress func(Progress)) (*Record, error) {
	for {
		select {
		case p, more := <-t.steps:
			if !more {
				return t.record, t.err
			}
			if progress != nil {
				progress(p)
			}
		case <-s.ended:
			// The last look at the inbox may still have answered it.
			select {
			case <-t.steps:
			default:
				return nil, s.unavailable()
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Ask asks for a handoff like Reload, and does not wait for it.
func (s *Supervisor) Ask(r Request) error {
	if !s.post(func() { s.take(&ticket{request: r}) }) {
		return s.unavailable()
	}
	return nil
}

// Errors of Promote and Abort.
var (
	// ErrNothingToPromote says that no canary and no soak is under way.
	ErrNothingToPromote = errors.New("no canary and no soak is under way")
	// ErrNothingToAbort says that no handoff is under way that could be given up for the generation before it.
	ErrNothingToAbort = errors.New("no handoff is under way that can be given up")
)

// Promote ends the canary or the soak that is under way, as if its time were over, and returns the handoff as it is
// then. It does not wait for its end. The error is ErrNothingToPromote, ErrStopping or the context's.
func (s *Supervisor) Promote(ctx context.Context, by string) (*Record, error) {
	var record *Record
	var err error
	if !s.ask(ctx, func() {
		if s.fire(PromoteAsked)&Decline != 0 {
			err = ErrNothingToPromote
			return
		}
		s.log.Info("promoted", "handoff", s.hand.record.Handoff, "step", s.state.Phase.String(), "by", by)
		r := s.hand.record
		record = &r
	}) {
		return nil, s.unasked(ctx)
	}
	return record, err
}

// Abort gives the handoff up that is under way, and blocks until everything is as it was before it; ctx ends the wait,
// not the abort. The record is that of the failed handoff. The error is ErrNothingToAbort, ErrStopping or the
// context's.
func (s *Supervisor) Abort(ctx context.Context, by string) (*Record, error) {
	t := &ticket{steps: make(chan Progress, progressRoom)}
	var err error
	if !s.ask(ctx, func() {
		if s.state.Phase >= Holding && s.state.Live && s.hand != nil {
			s.hand.aborted = "aborted by " + by
		}
		if s.fire(AbortAsked)&Decline != 0 {
			err = ErrNothingToAbort
			return
		}
		s.hand.tickets = append(s.hand.tickets, t)
	}) {
		return nil, s.unasked(ctx)
	}
	if err != nil {
		return nil, err
	}
	record, err := s.await(ctx, t, nil)
	var failed *HandoffError
	if errors.As(err, &failed) {
		return &failed.Record, nil
	}
	return record, err
}

// unasked says why a question did not get to the owner.
func (s *Supervisor) unasked(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.unavailable()
}

// take takes a request. One that nobody waits for is not kept beside another like it: however many come, they are few.
func (s *Supervisor) take(t *ticket) {
	// Both are rounded down, so only a later tick is surely later.
	servedBy := func(read uint64) bool { return t.request.Since != 0 && read > t.request.Since }
	switch h := s.hand; {
	case s.state.Phase >= Stopping: // which refuses it
	case h != nil && servedBy(h.read):
		h.add(t)
		s.show(t)
		return
	case h == nil && s.state.Phase == Idle && servedBy(s.lastRead):
		t.answer(s.lastAsked, nil)
		return
	}
	if t.steps != nil || !slices.ContainsFunc(s.waiting, func(w *ticket) bool { return w.steps == nil && w.request == t.request }) {
		s.waiting = append(s.waiting, t)
	}
	s.fire(ReloadAsked)
	if slices.Contains(s.waiting, t) {
		s.showAhead(t)
	}
}

// Stop asks for an orderly end: every generation drains. It does not wait for that; Run returns after it. The error is
// ErrStopping or ErrReplaced: Run is over already.
func (s *Supervisor) Stop() error { return s.want(StopAsked) }

// Kill is Stop, but every process is killed at once.
func (s *Supervisor) Kill() error { return s.want(KillAsked) }

func (s *Supervisor) want(e Event) error {
	if !s.post(func() { s.fire(e) }) {
		return s.unavailable()
	}
	return nil
}

// answer ends a ticket's wait.
func (t *ticket) answer(r *Record, err error) {
	if r != nil && r.Outcome != OutcomeDone {
		err = &HandoffError{Record: *r}
	}
	t.record, t.err = r, err
	if t.steps != nil {
		close(t.steps)
	}
}

// tell reports a step. Who does not keep up misses some of them, first of all steps that go on, and holds nobody up.
func (t *ticket) tell(p Progress) {
	if !p.Ended() && len(t.steps) > cap(t.steps)/2 {
		return
	}
	select {
	case t.steps <- p:
	default:
	}
}

// report tells everybody who waits for a handoff that a step of it has ended.
func (h *handoff) report(phase Phase, took time.Duration, err error) {
	p := Progress{Handoff: h.record.Handoff, Step: phase.String(), Generation: h.record.To, Took: took}
	if err != nil {
		p.Error = err.Error()
	}
	for _, t := range h.tickets {
		t.tell(p)
	}
}
