package standalone

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// Through 20 handoffs, with a service that finishes what it has accepted, not one request on a new connection fails.
func TestNothingLost(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			c := configuration{}
			if network == "unix" {
				c.sockets = fmt.Sprintf("[[socket]]\nname = \"main\"\nlisten = \"unix://%s/s.sock\"\n", shortDir(t))
			}
			passage{
				service: func(version string) configuration {
					c.mode = version
					return c
				},
				network: network, handoffs: 20,
			}.mustBeClean(t)
		})
	}
}

// A passage is a load through handoffs, of new connections all.
type passage struct {
	service  func(version string) configuration
	network  string // "tcp" by default
	handoffs int
	between  int // how many requests are answered between two handoffs at least

	// disturb makes a handoff harder; it may be nil. It is called before each, with the generation that is live, and what it returns
	// for each step that ends, and with an empty Progress when the handoff is over.
	disturb func(old *upgrade.GenerationStatus) func(upgrade.Progress)
	// watch gets the status, again and again, as long as run runs; it may be nil.
	watch func(*control.Status)
}

// run blocks until the load and the handoffs are over.
func (p passage) run(t *testing.T) (*load.Result, []load.Interval) {
	t.Helper()
	s := start(t, p.service("v0"))
	network, address := "tcp", s.address()
	if p.network == "unix" {
		network, address = p.network, address[len("unix://"):]
	}
	client, err := load.Start(t.Context(), load.Config{Network: network, Address: address, Workers: 8, Duration: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Stop()
	if p.watch != nil {
		defer s.watched(p.watch)()
	}
	var handoffs []load.Interval
	for i := range p.handoffs {
		version := fmt.Sprintf("v%d", i+1)
		p.service(version).write(t, s.dir)
		progress := func(upgrade.Progress) {}
		if p.disturb != nil {
			progress = p.disturb(s.live())
		}
		began := time.Now()
		if _, err := s.client.Reload(t.Context(), 0, progress); err != nil {
			t.Fatalf("handoff %d: %s", i+1, err)
		}
		handoffs = append(handoffs, load.Interval{From: began, To: time.Now()})
		progress(upgrade.Progress{})
		if err := client.Version(t.Context(), version); err != nil {
			t.Fatal(err)
		}
		if err := client.Answered(t.Context(), (i+1)*p.between); err != nil {
			t.Fatal(err)
		}
	}
	s.settled() // the last one that drains is under load too
	return client.Stop(), handoffs
}

// watched gives the status to watch until the function that it returns is called, which blocks until that is over.
func (s *supervisor) watched(watch func(*control.Status)) (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		next := time.NewTicker(10 * time.Millisecond)
		defer next.Stop()
		for {
			select {
			case <-next.C:
			case <-over:
				return
			}
			if st, err := s.client.Status(context.Background()); err == nil {
				watch(st)
			}
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

// mustBeClean runs, and fails the test if a request was lost, or none could have been.
func (p passage) mustBeClean(t *testing.T) {
	t.Helper()
	result, handoffs := p.run(t)
	verdict := result.Judge(handoffs)
	t.Logf("%s\n%s", describeLoad(result), verdict)
	if verdict.Verdict != load.Clean {
		t.Errorf("%s", verdict)
	}
}

// describeLoad tells what came of a load, and how heavy it was.
func describeLoad(r *load.Result) string {
	rate := 0.0
	if n := len(r.Requests); n > 0 {
		rate = float64(n) / r.Requests[n-1].End.Seconds()
	}
	return fmt.Sprintf("%.0f requests a second, latency p50 %s, p99 %s, p99.9 %s, max %s\n%s",
		rate, r.Quantile(0.5), r.Quantile(0.99), r.Quantile(0.999), r.Quantile(1), r)
}
