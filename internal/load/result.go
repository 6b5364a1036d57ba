package load

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Request is what became of one request. Its times count from [Result.Begin].
type Request struct {
	Due     time.Duration // when it should have been sent
	Start   time.Duration // when it was
	End     time.Duration // when it was answered or had failed
	Version int           // index into [Result.Versions]; -1 if no version answered
	Kind    Kind
}

// Latency counts from when the request was due.
func (q Request) Latency() time.Duration { return q.End - q.Due }

// Late is how long after it was due the request was sent, because all workers were busy until then.
func (q Request) Late() time.Duration { return q.Start - q.Due }

// Result is what came of a load.
type Result struct {
	Begin    time.Time
	Requests []Request // in the order in which they ended
	// Versions that answered, in the order of their first answers.
	Versions []string
	// IdleClosed is how many kept-alive connections the service had closed before the next request was due. That is no failure.
	IdleClosed int
	// Examples has the text of the first failure of each kind.
	Examples map[Kind]string
}

// Count is how many requests ended as k.
func (r *Result) Count(k Kind) int {
	n := 0
	for _, q := range r.Requests {
		if q.Kind == k {
			n++
		}
	}
	return n
}

// Failed is how many requests were not answered well, the client's own failures included.
func (r *Result) Failed() int { return len(r.Requests) - r.Count(OK) }

// Seen tells how many answers version gave, and when the first and the last of them came; zero times if none.
func (r *Result) Seen(version string) (n int, first, last time.Time) {
	v := slices.Index(r.Versions, version)
	if v < 0 {
		return 0, time.Time{}, time.Time{}
	}
	for _, q := range r.Requests {
		if q.Version != v {
			continue
		}
		at := r.Begin.Add(q.End)
		if n == 0 || at.Before(first) {
			first = at
		}
		if n == 0 || at.After(last) {
			last = at
		}
		n++
	}
	return n, first, last
}

// Quantile is the latency that the share p (0 to 1) of the well answered requests did not exceed; 0 if there were none.
func (r *Result) Quantile(p float64) time.Duration {
	latencies := make([]time.Duration, 0, len(r.Requests))
	for _, q := range r.Requests {
		if q.Kind == OK {
			latencies = append(latencies, q.Latency())
		}
	}
	if len(latencies) == 0 {
		return 0
	}
	slices.Sort(latencies)
	i := int(p*float64(len(latencies))+0.5) - 1
	return latencies[min(max(i, 0), len(latencies)-1)]
}

// late is how late the latest request was sent.
func (r *Result) late() time.Duration {
	var late time.Duration
	for _, q := range r.Requests {
		late = max(late, q.Late())
	}
	return late
}

// String is the result in a few lines.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d requests, %d failed", len(r.Requests), r.Failed())
	for k := OK + 1; k < kinds; k++ {
		if n := r.Count(k); n > 0 {
			fmt.Fprintf(&b, "\n  %s: %d (first: %s)", k, n, r.Examples[k])
		}
	}
	fmt.Fprintf(&b, "\n  latency p50 %s, p99 %s, max %s", round(r.Quantile(0.5)), round(r.Quantile(0.99)), round(r.Quantile(1)))
	if late := r.late(); late > time.Second {
		fmt.Fprintf(&b, "\n  sent up to %s late, since all workers were busy", round(late))
	}
	fmt.Fprintf(&b, "\n  %d versions answered", len(r.Versions))
	if r.IdleClosed > 0 {
		fmt.Fprintf(&b, "\n  %d idle connections closed by the service", r.IdleClosed)
	}
	return b.String()
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
