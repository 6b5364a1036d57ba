package drill

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// Handoff is one reload of the run. Its times count from the run's beginning.
type Handoff struct {
	Number int `json:"number"`
	// From and To are the time that counts as disturbed: from the reload until the old version was gone, whatever could still
	// come of it, and what was under way by then was answered.
	From time.Duration `json:"from_ns"`
	To   time.Duration `json:"to_ns"`
	// Took is how long the reload command ran; Output is what it said; Error is why it failed.
	Took   time.Duration `json:"took_ns"`
	Output string        `json:"output,omitempty"`
	Error  string        `json:"error,omitempty"`
	// Seen is how it is known that a handoff happened: "supervisor", "answers" or "command"; "" if nothing says so.
	Seen string `json:"seen,omitempty"`
	// New are those that answered first in this handoff, Gone those that never did after it.
	New  []string `json:"new,omitempty"`
	Gone []string `json:"gone,omitempty"`
	// Steps are the supervisor's.
	Steps []Step `json:"steps,omitempty"`
	// Overlapped is how many requests were under way between the reload's beginning and the end of the handoff itself.
	Overlapped int `json:"overlapped"`

	over time.Duration // the handoff itself
}

// Step is a step of a handoff and when it ended.
type Step struct {
	Name string        `json:"name"`
	At   time.Duration `json:"at_ns"`
}

// The ways in which a handoff is seen.
const (
	seenSupervisor = "supervisor"
	seenAnswers    = "answers"
	seenCommand    = "command"
)

// handoff makes one handoff and waits until it is over, as far as somebody says so.
func (r *run) handoff(ctx context.Context, n int) *Handoff {
	h := &Handoff{Number: n}
	before := r.supervisorHandoffs(ctx)
	h.From = time.Since(r.load.begin)
	r.phase(fmt.Sprintf("handoff %d of %d", n, r.config.Times))
	output, err := r.config.Reload(ctx, n)
	h.Took = time.Since(r.load.begin) - h.From
	h.Output = output
	if err != nil {
		h.Error = err.Error()
	}
	if before >= 0 {
		r.awaitSettled(ctx, h, before)
	}
	h.over = time.Since(r.load.begin)
	h.To = h.over
	return h
}

// supervisorHandoffs is how many handoffs the supervisor has begun; -1 without one.
func (r *run) supervisorHandoffs(ctx context.Context) int {
	if r.config.Supervisor == nil {
		return -1
	}
	st, err := r.config.Supervisor.Status(ctx)
	if err != nil {
		return -1
	}
	return st.Handoffs
}

// awaitSettled waits until the supervisor has made the handoff and no old generation is left, and takes its steps over.
func (r *run) awaitSettled(ctx context.Context, h *Handoff, before int) {
	ctx, cancel := context.WithTimeout(ctx, r.config.Settle)
	defer cancel()
	r.phase(fmt.Sprintf("handoff %d of %d: the old version drains", h.Number, r.config.Times))
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		st, err := r.config.Supervisor.Status(ctx)
		if err == nil && st.Current == nil && !st.Waiting {
			l := st.Last
			if l != nil && st.Handoffs > before && !l.Restart && l.Outcome != upgrade.OutcomeDone && h.Error == "" {
				h.Error = "the supervisor says: " + l.Reason
			}
			if l != nil && st.Handoffs > before && !l.Restart && l.Outcome == upgrade.OutcomeDone && h.Seen == "" {
				h.Seen = seenSupervisor
				at := l.Began.Sub(r.load.begin)
				for _, s := range l.Steps {
					at += s.Took
					h.Steps = append(h.Steps, Step{s.Name, at})
				}
			}
			if len(st.Generations) <= 1 {
				if h.Seen != "" {
					h.Steps = append(h.Steps, Step{"old version gone", time.Since(r.load.begin)})
				}
				return
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// fewAnswers is too few to tell from their absence that somebody does not answer any more.
const fewAnswers = 20

// lookAtAnswers finds out from the answers which handoffs happened and how long they took: who answered is new in one, or is gone
// after it. It settles what counts as disturbed.
func (r *run) lookAtAnswers(requests []Request, end time.Duration) {
	seen := make([]presence, len(r.load.answered))
	for i := range requests {
		if q := &requests[i]; q.who >= 0 {
			seen[q.who].add(q.End)
		}
	}
	grace := r.grace(requests)
	for i, h := range r.handoffs {
		next := end
		if i+1 < len(r.handoffs) {
			next = r.handoffs[i+1].From
		}
		for who, p := range seen {
			switch name := r.load.answered[who]; {
			case p.first >= h.From && p.first < next:
				h.New = append(h.New, name)
				h.over = max(h.over, min(p.first, next))
			case p.first < h.From && p.last < next && (i == 0 || p.last >= r.handoffs[i-1].To):
				// It may just not have had its turn.
				if r.share(requests, int16(who), h.From)*float64(answersBetween(requests, p.last, next)) < fewAnswers {
					continue
				}
				h.Gone = append(h.Gone, name)
				h.over = max(h.over, min(p.last, next))
			}
		}
		slices.Sort(h.New)
		slices.Sort(h.Gone)
		switch {
		case h.Seen != "" || h.Error != "" && len(h.New)+len(h.Gone) == 0:
		case len(h.New)+len(h.Gone) > 0:
			h.Seen = seenAnswers
		case r.config.TrustCommand:
			h.Seen = seenCommand
		}
		h.To = min(h.over+grace, next)
		within := h.To
		for i := range requests {
			q := &requests[i]
			if q.Kind == Local || q.End < h.From {
				continue
			}
			if q.Start <= h.over {
				h.Overlapped++
			}
			// What holds some of them holds others until they are answered: a proxy that waits for a dead backend.
			if q.Start <= within {
				h.To = max(h.To, min(q.End, next))
			}
		}
	}
}

// answersBetween counts the answers that came between two times.
func answersBetween(requests []Request, from, to time.Duration) (n int) {
	for i := range requests {
		if q := &requests[i]; q.who >= 0 && q.End > from && q.End < to {
			n++
		}
	}
	return n
}

// presence is when somebody answered.
type presence struct {
	any         bool
	first, last time.Duration
}

func (p *presence) add(at time.Duration) {
	if !p.any || at < p.first {
		p.first = at
	}
	p.last = max(p.last, at)
	p.any = true
}

// share is which part of the last thousand answers before a time were somebody's.
func (r *run) share(requests []Request, who int16, before time.Duration) float64 {
	all, mine := 0, 0
	for i := len(requests) - 1; i >= 0 && all < 1000; i-- {
		if q := requests[i]; q.End < before && q.who >= 0 {
			all++
			if q.who == who {
				mine++
			}
		}
	}
	if all == 0 {
		return 0
	}
	return float64(mine) / float64(all)
}

// grace is how long after a handoff something could still come of it: a request that was sent again takes up to twice its time.
func (r *run) grace(requests []Request) time.Duration {
	var calm []time.Duration
	for i := range requests {
		if q := &requests[i]; q.Kind == OK && (len(r.handoffs) == 0 || q.End < r.handoffs[0].From) {
			calm = append(calm, q.Latency())
		}
	}
	return max(time.Second, 4*quantile(calm, 0.5))
}
