package upgrade

import (
	"fmt"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// waitsFor says what the step that is about to run waits for, for those who watch it.
func (s *Supervisor) waitsFor(h *handoff, phase Phase) string {
	fresh := fmt.Sprintf("generation %d", h.record.To)
	switch phase {
	case Holding:
		return fmt.Sprintf("requests that belong to the same reload, for %s", s.opts.SignalHold)
	case Resolving:
		return "the configuration to be read"
	case Checking:
		return fmt.Sprintf("the check command %s to succeed, at most %s", h.prepared.Check.Path, h.plan.CheckTimeout)
	case Opening:
		return "new sockets to be bound"
	case Starting:
		return fresh + " to be executed"
	case Warming:
		return fmt.Sprintf("%s to be ready (%s), at most %s", fresh, h.gen.waiter, h.plan.ReadyTimeout)
	case Probing:
		return fmt.Sprintf("%s to answer the probe, %s in a row, at most %s each", fresh, times(h.plan.Probe.Count), h.plan.Probe.Timeout)
	case Approving:
		return fmt.Sprintf("the command of hooks.before-cutover to succeed, at most %s", h.plan.Hooks.Timeout)
	case Sharing:
		return fmt.Sprintf("%s to show what it is worth, with a part of new connections", fresh)
	case Cutting:
		return "new connections to go to " + fresh
	case Settling:
		return quietBy(s.live.number, h.plan.SettleMax)
	case Soaking:
		return fmt.Sprintf("%s to show what it is worth, for %s", fresh, h.plan.Soak)
	}
	return phase.String()
}

// quietBy is what settling waits for.
func quietBy(generation int, limit time.Duration) string {
	return fmt.Sprintf("generation %d to be quiet, at most %s", generation, limit)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// wait notes what the step that runs waits for, and tells everybody who waits for its handoff.
func (s *Supervisor) wait(h *handoff, st *step, waits string) {
	st.waits = waits
	for _, t := range h.tickets {
		s.show(t)
	}
}

// show tells who waits for the handoff that is under way what its step waits for. Who has just come sees it in the middle.
func (s *Supervisor) show(t *ticket) {
	if h, st := s.hand, s.step; st != nil && st.waits != "" {
		t.tell(Progress{
			Handoff: h.record.Handoff, Step: st.phase.String(), Generation: h.record.To, Took: time.Since(st.began), Waits: st.waits,
		})
	}
}

// showAhead tells who waits for the handoff that follows the one that is under way that it does.
func (s *Supervisor) showAhead(t *ticket) {
	if h := s.hand; h != nil {
		t.tell(Progress{
			Handoff: h.record.Handoff + 1, Step: Holding.String(),
			Waits: fmt.Sprintf("handoff %d to end, which is at step %s and had read the configuration before", h.record.Handoff, s.state.Phase),
		})
	}
}

// unquietInterval is the least time between two reports of what settling still waits for.
const unquietInterval = 200 * time.Millisecond

// unquiet returns what reports to those who watch a handoff that settles what it still waits for.
func (s *Supervisor) unquiet(h *handoff, st *step, bound []fdpass.Bound, waits string) func([]fdpass.Unsettled) {
	told, last := waits, time.Time{}
	return func(open []fdpass.Unsettled) {
		if time.Since(last) < unquietInterval {
			return
		}
		var parts []string
		for i, u := range open {
			if !u.Quiet() {
				parts = append(parts, fmt.Sprintf("socket %s: %s", bound[i].Spec.FDName(), u.Describe()))
			}
		}
		text := waits
		if len(parts) > 0 {
			text += "; connections on " + strings.Join(parts, "; on ")
		}
		if text == told {
			return
		}
		told, last = text, time.Now()
		s.post(func() {
			if s.step == st {
				s.wait(h, st, text)
			}
		})
	}
}
