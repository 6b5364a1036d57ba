package upgrade

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// A handoff is one that is under way: from the moment it is agreed until the new generation is live or is given up.
type handoff struct {
	record  Record
	tickets []*ticket     // who waits for it; none if the service is only started again
	joined  chan struct{} // closed when it need not hold any longer

	read     uint64 // when it began to read the configuration, see bootTicks; 0 until then, and if it does not read it
	plan     *Plan  // nil until it is resolved
	prepared *Prepared
	bound    []fdpass.Bound // the sockets of the new generation
	fresh    []fdpass.Bound // those of them that were opened for it
	gen      *generation    // nil until it has a process
	heir     bool           // it sits on the seat of one that crashed
	cause    error          // of a step that failed
	aborted  string         // why it is given up, as somebody has asked
	wanted   []string       // releases, of which it takes the first that is fit; none for the one that is current
	pointed  *pointing      // how the current release was changed for it; nil if it was not
	note     string         // what the step that runs is doing, where there is more to say
}

// begin takes the requests that wait: into the handoff that holds, or else into a new one.
func (s *Supervisor) begin() {
	h := s.hand
	if h == nil {
		h = s.newHandoff()
		s.logBegin(h)
		s.tell(s.opts.Manager.Reloading("handing off"))
	}
	for _, t := range s.waiting {
		h.add(t)
		if t.request.Kind.deploys() {
			h.record.Kind, h.wanted = t.request.Kind, []string{t.request.Release}
		}
		s.show(t)
		if !t.request.Signal {
			h.holdNoLonger()
		}
	}
	s.waiting = nil
}

// add makes a request one of those that the handoff answers.
func (h *handoff) add(t *ticket) {
	if t.steps != nil {
		h.tickets = append(h.tickets, t)
	}
	if !slices.Contains(h.record.By, t.request.By) {
		h.record.By = append(h.record.By, t.request.By)
	}
}

func (h *handoff) holdNoLonger() {
	select {
	case <-h.joined:
	default:
		close(h.joined)
	}
}

// restart begins to start the service as it was before.
func (s *Supervisor) restart() {
	h := s.newHandoff()
	h.record.Restart, h.record.Kind = true, KindRestart
	switch {
	case s.first:
		h.record.Kind = KindStart
	case s.live != nil:
		h.record.By = []string{"supervisor"}
	}
	h.plan = s.plan
	s.goBackFor(h)
	s.logBegin(h)
}

// newHandoff makes the handoff that is under way from now on.
func (s *Supervisor) newHandoff() *handoff {
	s.restarts.stop()
	s.handoffs++
	h := &handoff{joined: make(chan struct{})}
	h.record = Record{Handoff: s.handoffs, Kind: KindReload, Began: time.Now()}
	if s.live != nil {
		h.record.From, h.record.FromRelease = s.live.number, s.live.release
	}
	s.hand = h
	return h
}

// complete makes the new generation the live one, and lets the old one drain.
func (s *Supervisor) complete() {
	h, old := s.hand, s.live
	removed := without(s.bound, h.bound)
	s.plan, s.bound, s.live, s.first = h.plan, h.bound, h.gen, false
	s.live.kind, s.goBack = h.record.Kind, nil
	s.live.role, s.live.lived, s.lastRelease = RoleLive, time.Now(), s.live.release
	s.guard(s.live)
	for _, b := range h.bound {
		if err := b.Socket.Reconfigure(b.Spec); err != nil {
			s.log.Warn("cannot change a socket that is in use", "socket", b.Spec.FDName(), "cause", err)
		}
	}
	if old != nil {
		old.retired, old.open, old.replacedBy = removed, h.record.Unsettled, h.record.Handoff
		s.end(old, RoleDraining, "replaced by generation "+fmt.Sprint(s.live.number))
	} else { // nobody accepts from them any more
		s.closeAll(removed)
	}
	if s.orphan != 0 && !h.heir {
		s.leave(departure{s.orphan, h.bound})
	}
	s.orphan = 0
	s.limitDraining()
	s.finish(OutcomeDone)
	s.prune() // once it is on record which releases are good
}

// rollback ends the new generation and leaves everything else as it was.
func (s *Supervisor) rollback() {
	h := s.hand
	s.giveUpStep()
	s.pointBack(h)
	if h.gen != nil && s.live != nil {
		for _, b := range s.bound {
			// Before the cutover this changes nothing; after it, it is the way back.
			if err := b.Socket.Cutover(s.live.number); err != nil {
				s.log.Error("cannot turn a socket back to the old generation", "socket", b.Spec.FDName(), "cause", err)
			}
		}
	}
	keepSeat := false
	if h.record.To != 0 {
		// Where nothing is live, connections may wait on the seat that this generation had: the next attempt takes it.
		if keepSeat = s.live == nil && (h.heir || s.orphan == 0); keepSeat {
			s.orphan = h.record.To
		} else if h.gen == nil {
			s.leave(departure{h.record.To, h.bound})
		}
	}
	if h.gen != nil {
		h.gen.keepSeat = keepSeat
		s.end(h.gen, RoleFailed, "its handoff failed at step "+h.record.Phase)
		s.limitDraining()
	}
	if h.record.Restart && h.record.Phase == Opening.String() && s.first && len(s.bound) == 0 {
		s.failure = h.cause // that is for somebody to look at, and no time will mend it
	}
	if s.first && h.bound != nil {
		// Nothing has ever worked. The sockets stay open, so that clients wait and are not refused, and what could be
		// read last is tried on.
		s.closeAll(without(s.bound, h.bound))
		s.bound, s.plan = h.bound, h.plan
	} else {
		s.closeAll(h.fresh)
	}
	s.finish(OutcomeFailed)
}

// finish writes the handoff's record, tells the manager, and then answers everybody who waits: when an ExecReload=
// command ends, systemd must have heard READY=1 already.
func (s *Supervisor) finish(outcome Outcome) {
	h := s.hand
	s.hand = nil
	r := &h.record
	r.Outcome, r.Took = outcome, time.Since(r.Began)
	s.last = r
	if h.read != 0 {
		s.lastAsked, s.lastRead = r, h.read
	}
	log := s.log.With("handoff", r.Handoff, "took", r.Took.Round(time.Microsecond).String())
	var status string
	if outcome == OutcomeDone {
		r.Phase = ""
		status = fmt.Sprintf("generation %d is live", r.To)
		log.Info("live", "generation", r.To, "release", r.ToRelease, "pid", s.live.process.Pid())
	} else {
		what := "handoff failed"
		if r.Restart {
			what = "start failed"
		}
		if r.To != 0 {
			log = log.With("generation", r.To)
		}
		log.Error(what, "release", r.ToRelease, "step", r.Phase, "cause", r.Reason)
		s.down = fmt.Sprintf("%s at step %s: %s", what, r.Phase, r.Reason)
		status = fmt.Sprintf("handoff %d failed: %s", r.Handoff, r.Reason)
		if s.live != nil {
			status = fmt.Sprintf("generation %d serves on; %s", s.live.number, status)
		}
	}
	if s.live != nil || !s.first && !r.Restart {
		// In every outcome: a reload that is not said to be over hangs for ever with systemd 253 to 258.
		s.tell(s.opts.Manager.Ready(status))
	} else {
		s.tell(s.opts.Manager.Status(status))
	}
	s.observe(func(o Observer) { o.HandoffEnded(*r) })
	s.answer(h, r)
}

// limitDraining kills the oldest of the generations that are being ended where there are more than may.
func (s *Supervisor) limitDraining() {
	ending, most := s.ending(), s.plan.DrainGenerations
	for _, g := range ending[:max(0, len(ending)-most)] {
		s.log.Warn("too many generations drain: killing the oldest", "generation", g.number, "limit", most)
		g.kill()
	}
}

// A departure is a generation that gives up its seats.
type departure struct {
	generation int
	bound      []fdpass.Bound
}

// leave gives seats up now, or, while a step uses the sockets, once that is over.
func (s *Supervisor) leave(d departure) {
	if s.step != nil {
		s.leaving = append(s.leaving, d)
		return
	}
	for _, b := range d.bound {
		if err := b.Socket.Leave(d.generation); err != nil && !errors.Is(err, os.ErrClosed) {
			s.log.Warn("cannot give up a seat", "socket", b.Spec.FDName(), "generation", d.generation, "cause", err)
		}
	}
}

// closeAll closes sockets that no generation accepts from any more.
func (s *Supervisor) closeAll(bound []fdpass.Bound) {
	for _, b := range bound {
		if err := b.Socket.Close(); err != nil {
			s.log.Warn("cannot close a socket", "socket", b.Spec.FDName(), "cause", err)
		}
	}
}

func set(bound []fdpass.Bound) map[fdpass.Socket]bool {
	m := make(map[fdpass.Socket]bool, len(bound))
	for _, b := range bound {
		m[b.Socket] = true
	}
	return m
}

// without returns those of a whose sockets are not in b.
func without(a, b []fdpass.Bound) (rest []fdpass.Bound) {
	in := set(b)
	for _, x := range a {
		if !in[x.Socket] {
			rest = append(rest, x)
		}
	}
	return rest
}
