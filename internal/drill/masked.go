package drill

import (
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
	chance = 1e-4
	// least is how many requests make a tail.
	least = 4
	// enoughCalm is how many calm requests it takes to say what is usual.
	enoughCalm = 100
)

// tail compares the disturbed tail with the calm one. It returns why the run is masked, or "", and which retries it would not have seen.
func tail(calm, disturbed []time.Duration, tolerate time.Duration) (masked, blind string) {
	slices.Sort(calm)
	usual, p99 := quantile(calm, 0.5), quantile(calm, 0.99)
	limit := max(usual+time.Duration(again*float64(usual))+noise, p99+p99/10)
	// One of them shows when a request's time nearly doubles; where noise is as much as a request's time, it does not.
	if limit >= 2*usual {
		blind = fmt.Sprintf("a request that is executed twice cannot be told from noise by its latency, at %s for one and %s for the slowest in a hundred", round(usual), round(p99))
	} else if n := standsOut(calm, disturbed, limit); n > 0 {
		return fmt.Sprintf("%d requests in the disturbed time took more than %s, up to %s, where one usually takes %s: sent a second time, or held",
			n, round(limit), round(quantile(disturbed, 1)), round(usual)), ""
	}
	held := p99 + tolerate
	if n := standsOut(calm, disturbed, held); n > 0 {
		return fmt.Sprintf("%d requests in the disturbed time took more than %s, up to %s, where 99 of 100 in calm time took no more than %s: held, or sent again",
			n, round(held), round(quantile(disturbed, 1)), round(p99)), ""
	}
	return "", blind
}

// standsOut returns how many of the disturbed requests took more than limit, if they are too many to be there by chance, else 0.
func standsOut(calm, disturbed []time.Duration, limit time.Duration) int {
	above := func(all []time.Duration) (n int) {
		for _, d := range all {
			if d > limit {
				n++
			}
		}
		return n
	}
	n := above(disturbed)
	// Half a request more than was seen: that there was none does not say that there can be none.
	share := (float64(above(calm)) + 0.5) / float64(len(calm)+1)
	if n < least || atLeast(n, len(disturbed), share) > chance {
		return 0
	}
	return n
}

// atLeast is how likely n or more of all are there where each is with probability p: the binomial distribution's upper tail.
func atLeast(n, all int, p float64) float64 {
	if p >= 1 {
		return 1
	}
	sum := 0.0
	lgamma := func(x int) float64 { v, _ := math.Lgamma(float64(x + 1)); return v }
	for k := n; k <= all; k++ {
		sum += math.Exp(lgamma(all) - lgamma(k) - lgamma(all-k) + float64(k)*math.Log(p) + float64(all-k)*math.Log1p(-p))
	}
	return min(sum, 1)
}
