package upgrade

import "time"

// backoff says how long to wait before a crashed service is started again: not at all the first time, then longer and
// longer up to a cap, and never for good. A generation that was live for longer than the cap makes it begin anew.
type backoff struct {
	failures int
	timer    *time.Timer
	at       time.Time // when it fires; zero if it does not
}

const (
	firstDelay = 100 * time.Millisecond
	delayCap   = 10 * time.Second
)

// next returns the delay before the attempt that follows one more failure.
func (b *backoff) next() time.Duration {
	n := b.failures
	b.failures++
	if n == 0 {
		return 0
	}
	delay := firstDelay
	for ; n > 1 && delay < delayCap; n-- {
		delay *= 2
	}
	return min(delay, delayCap)
}

// lived notes that a generation that has now crashed was live for d.
func (b *backoff) lived(d time.Duration) {
	if d > delayCap {
		b.failures = 0
	}
}

// arm calls f after d, in a goroutine of its own, instead of what was armed before.
func (b *backoff) arm(d time.Duration, f func()) {
	b.stop()
	b.at, b.timer = time.Now().Add(d), time.AfterFunc(d, f)
}

// stop disarms. A call of f that has begun goes on.
func (b *backoff) stop() {
	b.at = time.Time{}
	if b.timer != nil {
		b.timer.Stop()
	}
}
