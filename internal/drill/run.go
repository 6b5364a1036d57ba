package drill

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Progress is how far a run is.
type Progress struct {
	Phase    string
	Elapsed  time.Duration
	Done     int // requests that ended
	Failed   int // of them
	InFlight int
	// P50 and Worst are the latencies of the requests that ended in the last second, and Answered who answered them.
	P50, Worst time.Duration
	Answered   []string
}

// run is a drill that is going on.
type run struct {
	config   *Config
	load     *load
	handoffs []*Handoff

	mu  sync.Mutex // guards now, which the goroutine that reports progress reads
	now string     // phase
}

// Run drills: it loads the service, hands it off as often as asked, and returns what came of it. When ctx ends it returns the report
// so far. The error is of what was wrong before anything was done: the configuration, or a service that does not answer.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.prepare(); err != nil {
		return nil, err
	}
	l, err := newLoad(ctx, &c)
	if err != nil {
		return nil, err
	}
	if err := l.try(); err != nil {
		return nil, err
	}
	r := &run{config: &c, load: l}
	r.phase("calm time")
	limited, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	began := time.Now()
	l.start(limited)
	stopProgress := r.reportProgress()
	r.handOffAll(limited)
	r.phase("the last requests")
	l.stop()
	stopProgress()
	interrupted := ""
	switch {
	case ctx.Err() != nil:
		interrupted = "it was interrupted"
	case limited.Err() != nil:
		interrupted = "it ran into its limit of " + c.Limit.String()
	}
	// What the service has executed is asked for even of a run that was interrupted.
	return r.report(context.WithoutCancel(ctx), began, interrupted), nil
}

// handOffAll makes all handoffs, with calm time before and after each, unless ctx ends first.
func (r *run) handOffAll(ctx context.Context) {
	if !r.calm(ctx, warmUp+r.config.Lead) {
		return
	}
	for n := 1; n <= r.config.Times; n++ {
		r.handoffs = append(r.handoffs, r.handoff(ctx, n))
		if ctx.Err() != nil {
			return
		}
		r.phase("calm time")
		if !r.calm(ctx, r.config.Gap+time.Second) {
			return
		}
	}
}

// calm lets the load run; false if ctx ends meanwhile. What is disturbed is found out from the requests, not from this time.
func (r *run) calm(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *run) phase(now string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = now
}

// reportProgress reports until the returned function is called, which waits for the last report.
func (r *run) reportProgress() (stop func()) {
	if r.config.Progress == nil {
		return func() {}
	}
	over, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(reportsEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-over:
				return
			}
			s := r.load.snapshot()
			r.mu.Lock()
			phase := r.now
			r.mu.Unlock()
			r.config.Progress(Progress{
				Phase: phase, Elapsed: time.Since(r.load.begin), Done: s.done, Failed: s.failed, InFlight: s.inFlight,
				P50: s.p50, Worst: s.worst, Answered: s.answered,
			})
		}
	}()
	return func() {
		close(over)
		<-gone
	}
}

// quantile is the value that the share p (0 to 1) of all did not exceed; 0 if there are none. It sorts them.
func quantile(all []time.Duration, p float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	i := int(p*float64(len(all))+0.5) - 1
	return all[min(max(i, 0), len(all)-1)]
}
