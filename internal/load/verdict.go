package load

import (
	"fmt"
	"time"
)

// Interval is the time of one handoff: from the request for it until the new version was live.
type Interval struct{ From, To time.Time }

// Overlapped is how many requests were under way at some time of the interval.
func (r *Result) Overlapped(in Interval) int {
	from, to := in.From.Sub(r.Begin), in.To.Sub(r.Begin)
	n := 0
	for _, q := range r.Requests {
		if q.Start <= to && q.End >= from {
			n++
		}
	}
	return n
}

// Verdict judges a load that ran through handoffs.
type Verdict int

const (
	// Inconclusive means that the run could not have shown a loss: see [Judgement.Reason].
	Inconclusive Verdict = iota
	// Clean means that every request was answered well.
	Clean
	// Lost means that requests failed.
	Lost
)

// String is the verdict in one word.
func (v Verdict) String() string {
	switch v {
	case Inconclusive:
		return "inconclusive"
	case Clean:
		return "clean"
	case Lost:
		return "lost"
	}
	return fmt.Sprintf("verdict %d", int(v))
}

// Judgement is a verdict with its reason in one sentence.
type Judgement struct {
	Verdict Verdict
	Reason  string
}

// String is the verdict and its reason.
func (j Judgement) String() string { return j.Verdict.String() + ": " + j.Reason }

// Judge tells whether requests were lost in these handoffs. Requests that failed make it [Lost] whatever else is the case, except
// where the client itself was at fault. A run without failures is [Clean] only if it could have seen one: there was a handoff,
// requests were under way in each, and as many versions answered as the handoffs leave behind.
func (r *Result) Judge(handoffs []Interval) Judgement {
	failed, local := r.Failed(), r.Count(Local)
	switch {
	case failed > local:
		return Judgement{Lost, fmt.Sprintf("%d of %d requests failed", failed-local, len(r.Requests))}
	case local > 0:
		return Judgement{Inconclusive, fmt.Sprintf("the client failed to send %d requests: %s", local, r.Examples[Local])}
	case len(handoffs) == 0:
		return Judgement{Inconclusive, "no handoff happened"}
	}
	least := len(r.Requests)
	for i, in := range handoffs {
		n := r.Overlapped(in)
		if n == 0 {
			return Judgement{Inconclusive, fmt.Sprintf("no request was under way during handoff %d", i+1)}
		}
		least = min(least, n)
	}
	if want := len(handoffs) + 1; len(r.Versions) < want {
		return Judgement{Inconclusive, fmt.Sprintf("%d versions answered, and %d handoffs leave %d", len(r.Versions), len(handoffs), want)}
	}
	return Judgement{Clean, fmt.Sprintf("%d requests answered through %d handoffs, at least %d under way in each", len(r.Requests), len(handoffs), least)}
}
