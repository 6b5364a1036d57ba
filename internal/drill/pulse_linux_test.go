package drill

import (
	"testing"
	"time"
)

// A waking that comes late counts for all of the time in which nothing was woken, on whichever processor, and for no other.
func TestPulse(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	p := &pulse{}
	p.note(5*ms, 5*ms+usualLateness/2)
	p.note(15*ms, 115*ms)
	p.note(40*ms, 60*ms)   // another processor, at the same time
	p.note(110*ms, 125*ms) // and for longer
	p.note(205*ms, 205*ms)
	for _, test := range []struct{ from, to, want time.Duration }{
		{0, 9 * ms, 0}, {0, 15 * ms, 5 * ms}, {50 * ms, 51 * ms, 10 * ms}, {0, 99 * ms, 85 * ms}, {0, time.Second, 110 * ms}, {130 * ms, time.Second, 0}, {-ms, time.Second, 110 * ms},
	} {
		if got := p.between(test.from, test.to); got != test.want {
			t.Errorf("from %s to %s: %s, want %s", test.from, test.to, got, test.want)
		}
	}
	if got := p.worst(); got != 100*ms {
		t.Errorf("at the worst %s", got)
	}
}

// It runs on every processor that it may use, and is gone when it is stopped.
func TestPulseRuns(t *testing.T) {
	t.Parallel()
	p := startPulse(time.Now())
	for p.worst() == 0 {
		time.Sleep(beat)
	}
	p.stop()
}
