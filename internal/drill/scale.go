package drill

import (
	"math"
	"time"
)

// logScale maps latencies onto 0 to 1, so that a tail and what is usual are both seen.
type logScale struct{ low, high float64 }

func newLogScale(low, high time.Duration) logScale {
	s := logScale{math.Log(float64(max(low, time.Microsecond))), math.Log(float64(max(high, 2*time.Microsecond)))}
	// Less than a tenfold range would make a drama of noise.
	if s.high-s.low < math.Ln10 {
		s.high = s.low + math.Ln10
	}
	return s
}

func (s logScale) value(share float64) time.Duration {
	return time.Duration(math.Exp(s.low + share*(s.high-s.low)))
}

func (s logScale) row(d time.Duration) int {
	share := (math.Log(float64(max(d, 1))) - s.low) / (s.high - s.low)
	return min(max(int(math.Round(share*(chartRows-1))), 0), chartRows-1)
}
