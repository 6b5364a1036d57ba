package child

import (
	"context"
	"time"
)

// A Waiter waits for one kind of ready signal.
type Waiter interface {
	// Prepare changes the command so that the signal can be given. It is called
	// once, after the sockets were put in and before Start.
	Prepare(c *Command) error

	// Wait blocks until p is ready (nil), has ended (*ExitedError), or ctx ends:
	// a *NotReadyError if by a deadline (context.Cause is
	// context.DeadlineExceeded), else context.Cause(ctx). It is called once.
	Wait(ctx context.Context, p *Process) error

	// Close gives back what Prepare has opened. It may follow Prepare without Wait.
	Close() error
}

// An ExitedError is a process that ended before it was ready.
type ExitedError struct {
	Exit Exit
	Left []int // processes of its tree that still ran: it has put itself in the background
}

func (e *ExitedError) Error() string { return "" }

// A NotReadyError is a ready signal that did not come in time.
type NotReadyError struct {
	By      string // the value of ready.by
	Waited  time.Duration
	Message string
}

func (e *NotReadyError) Error() string { return e.Message }

// Unwrap makes it context.DeadlineExceeded.
func (e *NotReadyError) Unwrap() error { return context.DeadlineExceeded }

// NotifyReady is ready when Ready is closed, by whoever reads the notify socket.
type NotifyReady struct{ Ready <-chan struct{} }

func (w *NotifyReady) Prepare(c *Command) error                   { return errTodo }
func (w *NotifyReady) Wait(ctx context.Context, p *Process) error { return errTodo }
func (w *NotifyReady) Close() error                               { return nil }

// FDReady is ready when a newline comes on a pipe, as s6 has it.
type FDReady struct{}

func (w *FDReady) Prepare(c *Command) error { return errTodo }

// Number is the descriptor's number in the child, known after Prepare: that of
// the first extra descriptor, 3 plus the number of sockets, unless others were
// put in before.
func (w *FDReady) Number() int                                { return 0 }
func (w *FDReady) Wait(ctx context.Context, p *Process) error { return errTodo }
func (w *FDReady) Close() error                               { return nil }

// ExecReady is ready when Command, run again and again, exits with status 0.
type ExecReady struct {
	Reaper   *Reaper
	Path     string
	Args     []string      // the name first; nil means Path alone
	Interval time.Duration // between two runs; 0 means one second
}

func (w *ExecReady) Prepare(c *Command) error                   { return errTodo }
func (w *ExecReady) Wait(ctx context.Context, p *Process) error { return errTodo }
func (w *ExecReady) Close() error                               { return nil }

// DelayReady is ready when it has lived for Delay.
type DelayReady struct{ Delay time.Duration }

func (w *DelayReady) Prepare(c *Command) error                   { return errTodo }
func (w *DelayReady) Wait(ctx context.Context, p *Process) error { return errTodo }
func (w *DelayReady) Close() error                               { return nil }
