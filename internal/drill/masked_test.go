package drill

import (
	"math/rand/v2"
	"testing"
	"time"
)

// latencies makes n of them: work, with a spread of a tenth, and what extra adds. With stalls the machine may have added that.
func latencies(r *rand.Rand, n int, work time.Duration, extra func(i int) time.Duration, stalls bool) []served {
	all := make([]served, n)
	for i := range all {
		more := extra(i)
		all[i].end = time.Duration(i) * 10 * time.Millisecond
		all[i].took = work + time.Duration(r.Float64()*float64(work)/10) + time.Duration(r.ExpFloat64()*float64(time.Millisecond)) + more
		if stalls {
			all[i].stalled = more + time.Millisecond
		}
	}
	return all
}

// Requests that are sent again take up to twice their time, and stand out where that can be told from noise. What this machine may
// have added says nothing of them, and a calm time that is full of it leaves nothing to say.
func TestTail(t *testing.T) {
	t.Parallel()
	const (
		tolerate = 500 * time.Millisecond
		long     = 300 * time.Millisecond
	)
	type delay struct {
		every int // 0 for none
		up    time.Duration
		// stalls tells that this machine was as late.
		stalls bool
	}
	for name, test := range map[string]struct {
		work            time.Duration
		calm, disturbed delay
		want            string
	}{
		"nothing":                            {work: long},
		"nothing, fast":                      {work: time.Millisecond, want: "blind"},
		"an uneven service":                  {work: long, disturbed: delay{every: 5, up: 60 * time.Millisecond}},
		"an uneven service, fast":            {work: time.Millisecond, disturbed: delay{every: 5, up: 100 * time.Millisecond}, want: "blind"},
		"twice, one in 20":                   {work: long, disturbed: delay{every: 20, up: long}, want: "masked"},
		"twice, a second's work":             {work: time.Second, disturbed: delay{every: 20, up: time.Second}, want: "masked"},
		"held for 2 s":                       {work: time.Millisecond, disturbed: delay{every: 10, up: 2 * time.Second}, want: "masked"},
		"held for less than is tolerated":    {work: time.Millisecond, disturbed: delay{every: 10, up: 400 * time.Millisecond}, want: "blind"},
		"stalls in the disturbed time":       {work: long, disturbed: delay{every: 20, up: long, stalls: true}, want: "busy"},
		"stalls in the disturbed time, fast": {work: time.Millisecond, disturbed: delay{every: 10, up: 2 * time.Second, stalls: true}, want: "busy"},
		"stalls all the time, twice":         {work: long, calm: delay{every: 4, up: long / 4, stalls: true}, disturbed: delay{every: 20, up: long}, want: "masked"},
		"stalls in calm time":                {work: long, calm: delay{every: 10, up: 2 * long, stalls: true}, want: "busy"},
		"stalls in calm time, twice":         {work: long, calm: delay{every: 10, up: 2 * long, stalls: true}, disturbed: delay{every: 20, up: long}, want: "busy"},
		"uneven in calm time":                {work: long, calm: delay{every: 10, up: 2 * long}, want: "blind"},
		"stalls in calm time, fast":          {work: time.Millisecond, calm: delay{every: 10, up: long, stalls: true}, want: "blind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(50) {
				r := rand.New(rand.NewPCG(seed, 1))
				of := func(n int, d delay) []served { return latencies(r, n, test.work, every(d.every, r, d.up), d.stalls) }
				f := tail(of(800, test.calm), of(400, test.disturbed), tolerate)
				got := ""
				for name, why := range map[string]string{"masked": f.masked, "busy": f.busy, "blind": f.blind} {
					if why != "" {
						got += name
					}
				}
				if got != test.want {
					t.Fatalf("seed %d: %+v, want %q", seed, f, test.want)
				}
			}
		})
	}
}

// every delays each nth request by up to d, and none with 0.
func every(n int, r *rand.Rand, d time.Duration) func(i int) time.Duration {
	return func(i int) time.Duration {
		if n == 0 || i%n != 0 {
			return 0
		}
		return time.Duration(r.Float64() * float64(d))
	}
}

// What this machine adds all the time is in what is usual, and hides nothing.
func TestTailOfABusyMachine(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 3))
		of := func(n int, d func(i int) time.Duration) []served {
			all := latencies(r, n, 300*time.Millisecond, d, false)
			for i := range all {
				all[i].stalled = all[i].took * 3 / 4
			}
			return all
		}
		f := tail(of(800, every(0, r, 0)), of(400, every(20, r, 300*time.Millisecond)), 500*time.Millisecond)
		if f.masked == "" {
			t.Fatalf("seed %d: %+v", seed, f)
		}
	}
}

// What makes all slow for a while is no retry, which slows those alone that were lost.
func TestTailWhereAllAreSlow(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{true, false} {
		for seed := range uint64(50) {
			r := rand.New(rand.NewPCG(seed, 4))
			calm := latencies(r, 800, 300*time.Millisecond, every(0, r, 0), false)
			disturbed := latencies(r, 400, 300*time.Millisecond, func(i int) time.Duration {
				if i < 200 || i >= 300 || !all && i%2 == 0 {
					return 0
				}
				return 20*time.Millisecond + time.Duration(r.Float64()*float64(300*time.Millisecond))
			}, false)
			if f := tail(calm, disturbed, 500*time.Millisecond); (f.busy != "") != all || (f.masked != "") == all {
				t.Fatalf("all %v, seed %d: %+v", all, seed, f)
			}
		}
	}
}

// Where calm time has such a tail itself, it says nothing.
func TestTailOfCalmTime(t *testing.T) {
	t.Parallel()
	wrong := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		uneven := func() []served {
			return latencies(r, 600, 300*time.Millisecond, every(20, r, 400*time.Millisecond), false)
		}
		if f := tail(uneven(), uneven(), 500*time.Millisecond); f.masked != "" {
			wrong++
			t.Logf("seed %d: %s", seed, f.masked)
		}
	}
	if wrong > 1 { // chance is one in a thousand
		t.Errorf("%d of 200 are masked", wrong)
	}
}

func TestImprobable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		all, some, others int
		p                 float64
		want              int
	}{
		// One of one where none of one was: a quarter. Two of two where nothing is known: three eighths.
		{1, 0, 1, 0.26, 1}, {1, 0, 1, 0.24, 2}, {1, 1, 1, 0.76, 1}, {1, 1, 1, 0.74, 2}, {2, 0, 0, 0.38, 2}, {2, 0, 0, 0.37, 3},
		// With very many others it is the binomial distribution: two or more of three, a half; four of four, one in ten thousand.
		{3, 500_000, 1_000_000, 0.501, 2}, {3, 500_000, 1_000_000, 0.499, 3}, {4, 100_000, 1_000_000, 1.01e-4, 4}, {4, 100_000, 1_000_000, 0.99e-4, 5},
		{0, 1, 10, 0.001, 1},
	} {
		if got := improbable(test.all, test.some, test.others, test.p); got != test.want {
			t.Errorf("%+v: %d", test, got)
		}
	}
	// As many as the longest and fastest run has.
	if got := improbable(2_000_000, 20_000, 2_000_000, chance); got < 20_500 || got > 20_800 { // 3.1 times 199
		t.Errorf("%d of two million", got)
	}
}
