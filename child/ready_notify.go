package child

import (
	"context"
	"time"
)

// NotifyReady is ready when Ready is closed. That is up to whoever reads the
// generation's notify socket, once READY=1 has come from a member of its tree.
type NotifyReady struct {
	Ready <-chan struct{}
}

// Prepare does nothing: the socket is Command.Notify.
func (w *NotifyReady) Prepare(*Command) error { return nil }

// Wait is as Waiter has it.
func (w *NotifyReady) Wait(ctx context.Context, p *Process) error {
	since := time.Now()
	select {
	case <-w.Ready:
		if hasEnded(p) {
			return exited(p)
		}
		return nil
	case <-p.Done():
		return exited(p)
	case <-ctx.Done():
		return waitEnded(ctx, p, "notify", since, "no READY=1 came on its NOTIFY_SOCKET (ready.by = \"notify\", see sd_notify(3))")
	}
}

// String says what it waits for.
func (w *NotifyReady) String() string { return "READY=1" }

// Close does nothing.
func (w *NotifyReady) Close() error { return nil }
