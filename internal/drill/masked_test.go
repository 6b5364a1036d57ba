package drill

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// latencies makes n of them: work, with a spread of a tenth, and what extra adds.
func latencies(r *rand.Rand, n int, work time.Duration, extra func(i int) time.Duration) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = work + time.Duration(r.Float64()*float64(work)/10) + time.Duration(r.ExpFloat64()*float64(time.Millisecond)) + extra(i)
	}
	return all
}

// Requests that are sent again take up to twice their time, and stand out where that can be told from noise.
func TestTail(t *testing.T) {
	t.Parallel()
	const tolerate = 500 * time.Millisecond
	none := func(int) time.Duration { return 0 }
	for name, test := range map[string]struct {
		work   time.Duration
		extra  func(r *rand.Rand) func(i int) time.Duration
		masked bool
		blind  bool
	}{
		"nothing":                {work: 300 * time.Millisecond, extra: func(*rand.Rand) func(int) time.Duration { return none }},
		"nothing, fast":          {work: time.Millisecond, extra: func(*rand.Rand) func(int) time.Duration { return none }, blind: true},
		"a busy machine":         {work: 300 * time.Millisecond, extra: func(r *rand.Rand) func(int) time.Duration { return every(5, r, 60*time.Millisecond) }},
		"a busy machine, fast":   {work: time.Millisecond, extra: func(r *rand.Rand) func(int) time.Duration { return every(5, r, 100*time.Millisecond) }, blind: true},
		"twice, one in 20":       {work: 300 * time.Millisecond, extra: func(r *rand.Rand) func(int) time.Duration { return every(20, r, 300*time.Millisecond) }, masked: true},
		"twice, a second's work": {work: time.Second, extra: func(r *rand.Rand) func(int) time.Duration { return every(20, r, time.Second) }, masked: true},
		"held for 2 s":           {work: time.Millisecond, extra: func(r *rand.Rand) func(int) time.Duration { return every(10, r, 2*time.Second) }, masked: true},
		"held for less than is tolerated": {work: time.Millisecond, blind: true,
			extra: func(r *rand.Rand) func(int) time.Duration { return every(10, r, 400*time.Millisecond) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(50) {
				r := rand.New(rand.NewPCG(seed, 1))
				masked, blind := tail(latencies(r, 800, test.work, none), latencies(r, 400, test.work, test.extra(r)), tolerate)
				if (masked != "") != test.masked || (blind != "") != test.blind {
					t.Fatalf("seed %d: masked %q, blind %q", seed, masked, blind)
				}
			}
		})
	}
}

// every delays each nth request by up to d.
func every(n int, r *rand.Rand, d time.Duration) func(i int) time.Duration {
	return func(i int) time.Duration {
		if i%n != 0 {
			return 0
		}
		return time.Duration(r.Float64() * float64(d))
	}
}

// Where calm time has such a tail itself, it says nothing.
func TestTailOfCalmTime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		uneven := func() []time.Duration {
			return latencies(r, 600, 300*time.Millisecond, every(20, r, 400*time.Millisecond))
		}
		if masked, _ := tail(uneven(), uneven(), 500*time.Millisecond); masked != "" {
			t.Errorf("seed %d: %s", seed, masked)
		}
	}
}

func TestAtLeast(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		n, all int
		p      float64
		want   float64
	}{
		{1, 1, 0.25, 0.25}, {2, 3, 0.5, 0.5}, {4, 4, 0.1, 1e-4}, {0, 10, 0.3, 1}, {5, 10, 1, 1},
	} {
		if got := atLeast(test.n, test.all, test.p); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%d or more of %d at %g: %g, want %g", test.n, test.all, test.p, got, test.want)
		}
	}
}
