package child

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Waiter waits for one kind of ready signal, once. The calls come in this order:
// Prepare, Reaper.Start, Wait, Close; after a failure the rest but Close is left out.
type Waiter interface {
	// Prepare changes the command so that the signal can be given. The command's
	// sockets are in it already.
	Prepare(c *Command) error

	// Wait blocks until p is ready and returns nil, or returns an *ExitedError as
	// soon as p has ended, whatever it has said before. When ctx ends first, it
	// returns a *NotReadyError if that was a deadline, that is, if context.Cause
	// is context.DeadlineExceeded, and else the cause. A caller whose deadline
	// moves cancels with that cause.
	Wait(ctx context.Context, p *Process) error

	// Close gives back what Prepare has opened. Closing again does nothing.
	Close() error

	// String says what Wait waits for, once Prepare was called: "READY=1".
	String() string
}

// An ExitedError is a process that has ended before it was ready.
type ExitedError struct {
	Exit Exit

	// Left are the processes of its tree that still ran then. If it has ended
	// well, it has most likely put itself in the background.
	Left []int
}

// Error is such as "it ended before it was ready: exit status 3".
func (e *ExitedError) Error() string {
	text := fmt.Sprintf("it ended before it was ready: %v", e.Exit)
	if len(e.Left) > 0 && e.Exit.Success() {
		text += fmt.Sprintf("; the processes %v that it has started still run: a service has to stay in the foreground, not make itself a daemon", e.Left)
	}
	return text
}

// A NotReadyError is a ready signal that did not come in time. It is
// context.DeadlineExceeded too.
type NotReadyError struct {
	By     string        // the kind of signal, as the configuration calls it
	Waited time.Duration // how long

	missing string // what was waited for, and how it stands
	hint    string
}

// Error says what was waited for and what else there is.
func (e *NotReadyError) Error() string {
	text := fmt.Sprintf("it was not ready after %v: %s", e.Waited.Round(10*time.Millisecond), e.missing)
	if e.hint != "" {
		text += "; " + e.hint
	}
	return text + "; if it cannot give this signal, let ready.by be another of notify, fd, http, accept, exec and delay, and if it only needs longer, raise ready.timeout"
}

// Unwrap returns context.DeadlineExceeded.
func (e *NotReadyError) Unwrap() error { return context.DeadlineExceeded }

// waitEnded is what a Wait returns when ctx has ended.
func waitEnded(ctx context.Context, p *Process, by string, since time.Time, missing string) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return &NotReadyError{By: by, Waited: time.Since(since), missing: missing, hint: shellHint(p)}
}

// exited is what a Wait returns when p has ended.
func exited(p *Process) error {
	left, _ := p.Tree().Members() // only for the wording
	return &ExitedError{Exit: p.Exit(), Left: left}
}

// hasEnded looks without blocking.
func hasEnded(p *Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// errEnded is why what is done until a process is ready is given up when the
// process has ended.
var errEnded = errors.New("the process has ended")

// untilEnded returns a context that ends with p too, or with cancel, which must be
// called and returns when nothing of it is left.
func untilEnded(ctx context.Context, p *Process) (_ context.Context, cancel func()) {
	ctx, stop := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-p.Done():
			stop(errEnded)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		stop(nil)
		<-watched
	}
}
