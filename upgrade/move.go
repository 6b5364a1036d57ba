package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// probe asks the new generation as a client would, before any client gets to it.
func (s *Supervisor) probe(ctx context.Context, h *handoff) work {
	p, target := h.plan.Probe, h.target()
	if p == nil {
		return nil
	}
	return func() (func(), error) {
		for i := range p.Count {
			if err := p.ask(ctx, target); err != nil {
				return nil, fmt.Errorf("probe %d of %d: %w", i+1, p.Count, err)
			}
		}
		return nil, nil
	}
}

// share lets the new generation have a part of new connections, more and more of them, and watches it meanwhile.
func (s *Supervisor) share(ctx context.Context, h *handoff, st *step) work {
	steps := h.plan.Canary
	if s.live == nil || h.record.Restart || len(steps) == 0 { // nobody gets to a live one that is replaced by itself
		return nil
	}
	if !anySteered(h.bound) {
		s.log.Warn("no socket is steered: the canary is left out, and all connections move at once")
		return nil
	}
	bound, number := h.bound, h.gen.number
	h.gen.served = true
	watch := s.watcher(ctx, h, st)
	return func() (func(), error) {
		for _, step := range steps {
			for _, b := range bound {
				if err := b.Socket.Share(number, step.Share); err != nil {
					return nil, fmt.Errorf("socket %s: move a part of new connections: %w", b.Spec.FDName(), err)
				}
			}
			s.note(h, fmt.Sprintf("generation %d gets %s of new connections for %s", number, percent(step.Share), step.Time))
			if early, err := watch(step.Time); early || err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}

// cut moves all new connections to the new generation.
func (s *Supervisor) cut(h *handoff) work {
	g, bound, number := h.gen, h.bound, h.gen.number
	g.served = true
	return func() (func(), error) {
		if err := g.listening(); err != nil {
			return nil, err
		}
		for _, b := range bound {
			if err := b.Socket.Cutover(number); err != nil {
				return nil, fmt.Errorf("socket %s: move new connections: %w", b.Spec.FDName(), err)
			}
		}
		return nil, nil
	}
}

// settle waits until nothing is on its way to the old generation.
func (s *Supervisor) settle(ctx context.Context, h *handoff, st *step) work {
	if s.live == nil {
		return nil
	}
	g, old, bound, limit := h.gen, s.live.number, s.bound, h.plan.SettleMax
	seen := s.unquiet(h, st, bound, quietBy(old, limit))
	return func() (func(), error) {
		open := s.settled(ctx, bound, old, limit, seen)
		return func() { h.record.Unsettled = open }, g.listening()
	}
}

// settled blocks until nothing is on its way to a generation any more, at most for limit, and returns what still is. seen is
// fdpass.SettleWatched's.
func (s *Supervisor) settled(ctx context.Context, bound []fdpass.Bound, generation int, limit time.Duration, seen func([]fdpass.Unsettled)) (rest []OpenSocket) {
	open, err := fdpass.SettleWatched(ctx, bound, generation, limit, seen)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		s.log.Warn("the kernel does not tell about connections: settling has looked at accept queues only", "cause", err)
	}
	for i, u := range open {
		if u.Quiet() {
			continue
		}
		name := bound[i].Spec.FDName()
		rest = append(rest, OpenSocket{name, u})
		s.log.Warn("a generation did not get quiet in time", "generation", generation, "socket", name, "limit", limit.String(),
			"queued", u.Queued, "handshakes", u.Handshakes, "unread", u.Unread, "young", u.Young)
	}
	return rest
}

// soak keeps the old generation in reach while the new one shows what it is worth.
func (s *Supervisor) soak(ctx context.Context, h *handoff, st *step) work {
	d := h.plan.Soak
	if s.live == nil || h.record.Restart || d <= 0 {
		return nil
	}
	watch := s.watcher(ctx, h, st)
	old := s.live.number
	return func() (func(), error) {
		s.note(h, fmt.Sprintf("generation %d stays in reach for %s", old, d))
		_, err := watch(d)
		return nil, err
	}
}

// watchInterval is the time between two looks at whether a new generation listens.
const watchInterval = 200 * time.Millisecond

// watcher returns a function that waits for a time and sees meanwhile that the new generation listens, and probes it where
// there is a probe. It returns early if the step need not wait any longer, and an error if the new generation is not what it
// should be or the step is cancelled.
func (s *Supervisor) watcher(ctx context.Context, h *handoff, st *step) func(time.Duration) (early bool, err error) {
	p, target, g := h.plan.Probe, h.target(), h.gen
	return func(d time.Duration) (bool, error) {
		look := time.NewTicker(watchInterval)
		defer look.Stop()
		end := time.NewTimer(d)
		defer end.Stop()
		var every time.Duration
		if p != nil {
			every = p.Interval
		}
		next := newTicker(every)
		defer next.Stop()
		for {
			select {
			case <-end.C:
				return false, g.listening()
			case <-st.early:
				return true, g.listening()
			case <-look.C:
				if err := g.listening(); err != nil {
					return false, err
				}
			case <-ctx.Done():
				return false, context.Cause(ctx)
			case <-next.C:
				if err := p.ask(ctx, target); err != nil {
					return false, fmt.Errorf("probe: %w", err)
				}
			}
		}
	}
}

// note tells whoever waits for a handoff what its step is doing. It may be called from the step.
func (s *Supervisor) note(h *handoff, text string) {
	s.post(func() {
		if s.hand != h {
			return
		}
		s.log.Info(s.state.Phase.String(), "handoff", h.record.Handoff, "generation", h.record.To, "release", h.record.ToRelease, "note", text)
		h.note = text
		p := Progress{Handoff: h.record.Handoff, Step: s.state.Phase.String(), Generation: h.record.To, Note: text}
		for _, t := range h.tickets {
			t.tell(p)
		}
	})
}

func anySteered(bound []fdpass.Bound) bool {
	return slices.ContainsFunc(bound, func(b fdpass.Bound) bool { return b.Socket.Mode() == fdpass.Steered })
}

// percent writes a part of 1.
func percent(share float64) string { return fmt.Sprintf("%g%%", share*100) }

// ask asks once, within the probe's limit.
func (p *Probe) ask(parent context.Context, t *Target) error {
	ctx, cancel := context.WithTimeout(parent, p.Timeout)
	defer cancel()
	err := p.Ask(ctx, t)
	if err != nil && parent.Err() == nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s (probe.timeout): %w", p.Timeout, err)
	}
	return err
}
