package drill

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// What a tail must be to stand out.
const (
	// again is which part of its usual time a request takes more, at least, when it is sent again after some of its work is lost.
	// A loss comes at any moment of a request, so three quarters of those that are sent again take more than that.
	again = 0.25
	// noise is what a busy machine adds to any request.
	noise = 20 * time.Millisecond
	// chance is how likely the calm time alone may make such a tail.
	chance = 1e-3
	// least is how many requests make a tail, and enough is how few must be enough for a run that sees none to say so.
	least, enough = 4, 15
	// stallsCost is how much longer a request may take, at most, for a time in which a processor did nothing for it: that time, and
	// as much again until what has piled up is done.
	stallsCost = 2
	// tooStalled is which part of the requests' time this machine may have added before nothing is said of their latencies.
	tooStalled = 0.1
	// enoughCalm is how many calm requests it takes to say what is usual.
	enoughCalm = 100
)

// finding is what a comparison of tails has come to. At most one of them is not "".
type finding struct {
	masked string // why the run is masked
	busy   string // why nothing can be said, since this machine was too busy
	blind  string // which retries would not have shown
}

// served is how long a request was served, from when it was sent, how much of that this machine may have added, and when it was over.
type served struct{ took, stalled, end time.Duration }

func (s served) unstalled() time.Duration { return max(s.took-s.stalled, 0) }

// tail compares the disturbed tail with the calm one.
func tail(calm, disturbed []served, tolerate time.Duration) finding {
	seen := newBaseline(calm, func(s served) time.Duration { return s.took })
	blind := seen.blind(len(disturbed))
	if seen.again < 2*seen.usual {
		if n, stalls := seen.above(disturbed, seen.again, seen.allSlow(disturbed)); n > 0 {
			text := fmt.Sprintf("%s in the disturbed time took more than %s, up to %s, where one usually takes %s",
				count(n, "request"), round(seen.again), round(longest(disturbed)), round(seen.usual))
			if stalls {
				return finding{busy: text + ", no longer than what else runs here may have held them up"}
			}
			return finding{masked: text + ": sent a second time, or held"}
		}
	}
	held := seen.p99 + tolerate
	if n, stalls := seen.above(disturbed, held, func(served) bool { return false }); n > 0 {
		text := fmt.Sprintf("%s in the disturbed time took more than %s, up to %s, where 99 of 100 in calm time took no more than %s",
			count(n, "request"), round(held), round(longest(disturbed)), round(seen.p99))
		if stalls {
			return finding{busy: text + ", no longer than what else runs here may have held them up"}
		}
		return finding{masked: text + ": held, or sent again"}
	}
	if !blind {
		return finding{}
	}
	text := fmt.Sprintf("a request that is executed twice cannot be told from noise by its latency, at %s for one and %s for the slowest in a hundred", round(seen.usual), round(seen.p99))
	// Of a slow service it would have shown, without what this machine added.
	quiet := newBaseline(calm, served.unstalled)
	if !quiet.blind(len(disturbed)) || seen.usual > 4*noise && seen.stalled > tooStalled {
		return finding{busy: text}
	}
	return finding{blind: text}
}

// allSlow tells of a request that stands out whether those that do not, and were answered about then, took longer than is usual too.
// What is sent again does not slow the others; where there is more to run than there are processors for, all are slow.
func (b *baseline) allSlow(disturbed []served) func(served) bool {
	byEnd := slices.SortedFunc(slices.Values(disturbed), func(a, b served) int { return cmp.Compare(a.end, b.end) })
	from := func(at time.Duration) int {
		i, _ := slices.BinarySearchFunc(byEnd, at, func(s served, at time.Duration) int { return cmp.Compare(s.end, at) })
		return i
	}
	part := max(b.usual/6, time.Millisecond)
	slow := map[time.Duration]bool{} // by the part
	slowIn := func(n time.Duration) bool {
		is, ok := slow[n]
		if !ok {
			var took []time.Duration
			for _, other := range byEnd[from((n-3)*part):from((n+4)*part)] {
				if other.took <= b.again {
					took = append(took, other.took)
				}
			}
			is = quantile(took, 0.5) > b.usual+noise
			slow[n] = is
		}
		return is
	}
	return func(s served) bool { return slowIn(s.end / part) }
}

func longest(all []served) (d time.Duration) {
	for _, s := range all {
		d = max(d, s.took)
	}
	return d
}

// baseline is what is usual in calm time.
type baseline struct {
	calm       []time.Duration // sorted
	usual, p99 time.Duration
	again      time.Duration // what takes longer was sent again, if there are too many of it
	stalled    float64       // which part of the requests' time this machine may have added
}

func newBaseline(calm []served, value func(served) time.Duration) *baseline {
	b := &baseline{calm: make([]time.Duration, len(calm))}
	var took, stalled time.Duration
	for i, s := range calm {
		b.calm[i] = value(s)
		took += s.took
		stalled += s.stalled
	}
	b.stalled = float64(stalled) / float64(max(took, 1))
	slices.Sort(b.calm)
	b.usual, b.p99 = quantile(b.calm, 0.5), quantile(b.calm, 0.99)
	b.again = max(b.usual+time.Duration(again*float64(b.usual))+noise, b.p99+b.p99/10)
	return b
}

// blind tells that requests which are sent again need not show: fewer than half of them take long enough, or so many others do
// that a few more say nothing.
func (b *baseline) blind(disturbed int) bool {
	return b.again >= b.usual+b.usual/2 || b.needed(disturbed, b.again) > enough
}

// needed is how many of all must take more than limit for calm time not to have made them by chance.
func (b *baseline) needed(all int, limit time.Duration) int {
	i, _ := slices.BinarySearch(b.calm, limit+1)
	return max(improbable(all, len(b.calm)-i, len(b.calm), chance), least)
}

// above returns how many of the disturbed requests took more than limit, if they are too many to be there by chance, else 0. It also
// tells whether they would not be without what this machine may have added to them more than it does in calm time, and without those
// that are left out.
func (b *baseline) above(disturbed []served, limit time.Duration, leaveOut func(served) bool) (n int, stalls bool) {
	without := 0
	for _, s := range disturbed {
		if s.took <= limit {
			continue
		}
		n++
		// What stalls usually cost is in the calm time's latencies, and in the limit.
		if s.took-max(s.stalled-time.Duration(b.stalled*float64(s.took)), 0) > limit && !leaveOut(s) {
			without++
		}
	}
	needed := b.needed(len(disturbed), limit)
	if n < needed {
		return 0, false
	}
	return n, without < needed || without < n/2 // at the beginning and the end of such a time others are quick
}

// improbable is the least n for which n or more of all are there with no more probability than p, where some of others were: in the
// upper tail of the beta-binomial distribution. How often it happens is known from the others alone, and no better than they tell;
// that there was none does not say that there can be none (Jeffreys' prior).
func improbable(all, some, others int, p float64) int {
	gamma := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	beta := func(a, b float64) float64 { return gamma(a) + gamma(b) - gamma(a+b) }
	a, b := float64(some)+0.5, float64(others-some)+0.5
	n := 0
	for left := 1.0; left > p && n <= all; n++ {
		x, y := float64(n), float64(all-n)
		left -= math.Exp(-beta(x+1, y+1) - math.Log(float64(all)+1) + beta(x+a, y+b) - beta(a, b))
	}
	return n
}
