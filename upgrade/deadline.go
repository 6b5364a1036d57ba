package upgrade

import (
	"context"
	"sync"
	"time"
)

// deadline is a time limit that can be moved away while it is waited for, as a service may ask with
// EXTEND_TIMEOUT_USEC=.
type deadline struct {
	began time.Time
	mu    sync.Mutex
	at    time.Time
	timer *time.Timer
}

// withDeadline returns a context that ends with context.DeadlineExceeded as its cause after d at first, and its deadline. cancel must be called.
func withDeadline(parent context.Context, d time.Duration) (ctx context.Context, limit *deadline, cancel func()) {
	ctx, stop := context.WithCancelCause(parent)
	now := time.Now()
	limit = &deadline{began: now, at: now.Add(d)}
	limit.timer = time.AfterFunc(d, func() { stop(context.DeadlineExceeded) })
	return ctx, limit, func() {
		limit.timer.Stop()
		stop(nil)
	}
}

// extend moves the limit to d from now, unless it is later than that already.
func (l *deadline) extend(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := time.Now().Add(d); at.After(l.at) {
		l.at = at
		// A timer that has fired already cannot be called back: too late is too late.
		if l.timer.Stop() {
			l.timer.Reset(d)
		}
	}
}

// restart moves the limit to d from now, also if that is earlier.
func (l *deadline) restart(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began, l.at = time.Now(), time.Now().Add(d)
	if l.timer.Stop() {
		l.timer.Reset(d)
	}
}

// when returns when the limit is by now.
func (l *deadline) when() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

// granted returns how long the limit is by now.
func (l *deadline) granted() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at.Sub(l.began)
}
