package drill

import (
	"slices"
	"time"
)

// Stats are of the requests of one part of a run. The latencies are those of the requests that were answered well, and count from when
// each was due.
type Stats struct {
	Requests int           `json:"requests"`
	Failed   int           `json:"failed"`
	P50      time.Duration `json:"p50_ns"`
	P90      time.Duration `json:"p90_ns"`
	P99      time.Duration `json:"p99_ns"`
	P999     time.Duration `json:"p999_ns"`
	Max      time.Duration `json:"max_ns"`
}

// sample is the requests of one part of a run.
type sample struct {
	failed  int
	latency []time.Duration // of those that were answered well, from when they were due; sorted by stats
	served  []served        // the same from when they were sent: what the client itself was late with is not in it
}

// add adds a request, which this machine's being busy may have delayed by stalled.
func (s *sample) add(q *Request, stalled time.Duration) {
	if q.Kind != OK {
		s.failed++
		return
	}
	s.latency = append(s.latency, q.Latency())
	s.served = append(s.served, served{q.End - q.Start, stalled, q.End})
}

func (s *sample) stats() Stats {
	slices.Sort(s.latency)
	return Stats{
		Requests: len(s.latency) + s.failed, Failed: s.failed,
		P50: quantile(s.latency, 0.5), P90: quantile(s.latency, 0.9), P99: quantile(s.latency, 0.99),
		P999: quantile(s.latency, 0.999), Max: quantile(s.latency, 1),
	}
}

// class is a part of the run.
type class uint8

const (
	warming class = iota
	calm
	disturbed
)

// classify tells in which part of the run a request was under way.
func (r *run) classify(q *Request) class {
	for _, h := range r.handoffs {
		if q.End >= h.From && min(q.Due, q.Start) <= h.To {
			return disturbed
		}
	}
	if q.Due < warmUp {
		return warming
	}
	return calm
}
