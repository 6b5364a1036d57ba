package child

import (
	"context"
	"fmt"
	"time"
)

// DelayReady is ready when it has run for Delay. That is a guess: nothing says that
// the service can be used by then.
type DelayReady struct {
	Delay time.Duration
}

// Prepare does nothing.
func (w *DelayReady) Prepare(*Command) error { return nil }

// Wait is as Waiter has it. The delay begins with the call.
func (w *DelayReady) Wait(ctx context.Context, p *Process) error {
	since := time.Now()
	timer := time.NewTimer(w.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		if hasEnded(p) {
			return exited(p)
		}
		return nil
	case <-p.Done():
		return exited(p)
	case <-ctx.Done():
		return waitEnded(ctx, p, "delay", since, fmt.Sprintf("the delay of %v (ready.by = \"delay\") is longer than the time there is", w.Delay))
	}
}

// String says what it waits for.
func (w *DelayReady) String() string { return "a delay of " + w.Delay.String() }

// Close does nothing.
func (w *DelayReady) Close() error { return nil }
