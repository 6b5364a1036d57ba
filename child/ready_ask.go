package child

import (
	"context"
	"fmt"
	"time"
)

// AskReady is ready when it answers a question. It is asked again and again.
type AskReady struct {
	By       string        // the kind of signal, as the configuration calls it
	Question string        // what is asked, for the message: "GET / on socket http"
	Interval time.Duration // from the end of one try to the next

	// Ask asks once, and blocks until it has the answer or ctx ends. The error says
	// what was wrong with the answer.
	Ask func(ctx context.Context) error
}

// Prepare does nothing.
func (w *AskReady) Prepare(*Command) error { return nil }

// Wait is as Waiter has it.
func (w *AskReady) Wait(ctx context.Context, p *Process) error {
	since := time.Now()
	asking, cancel := untilEnded(ctx, p)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	last := "it has not answered yet"
	for {
		select {
		case <-timer.C:
			err := w.Ask(asking)
			switch {
			case hasEnded(p):
				return exited(p)
			case err == nil:
				return nil
			case ctx.Err() == nil:
				last = err.Error()
			}
			timer.Reset(w.Interval)
		case <-p.Done():
			return exited(p)
		case <-ctx.Done():
			return waitEnded(ctx, p, w.By, since, fmt.Sprintf("%s (ready.by = %q) has not succeeded: %s", w.Question, w.By, last))
		}
	}
}

// String says what it waits for.
func (w *AskReady) String() string { return w.Question }

// Close does nothing.
func (w *AskReady) Close() error { return nil }
