package child

import (
	"context"
	"errors"
)

var errTodo = errors.New("not implemented")

// A Reaper starts processes and waits for them: it is the one place in a
// process where children are waited for.
type Reaper struct{}

// ReaperOptions are what NewReaper may be told. The zero value is for a
// supervisor.
type ReaperOptions struct {
	// OwnChildrenOnly leaves children alone that the Reaper did not start, and
	// the process does not become a subreaper: for programs in which others
	// start processes too. Any number of such Reapers may exist.
	OwnChildrenOnly bool
}

// NewReaper begins to wait for the children of this process.
func NewReaper(o ReaperOptions) (*Reaper, error) { return nil, errTodo }

// Start starts a process and returns once its program runs. ctx bounds the
// start alone, not the life of the process. A program that cannot be run is an
// *ExecError.
func (r *Reaper) Start(ctx context.Context, c Command) (*Process, error) { return nil, errTodo }

// Run starts a process and waits until it has ended. When ctx ends first, its
// whole tree is killed.
func (r *Reaper) Run(ctx context.Context, c Command) (Exit, error) { return Exit{}, errTodo }

// HoldStrays stops the reaping of children that the Reaper did not start,
// until release is called: for somebody who starts and waits for a process by
// other means.
func (r *Reaper) HoldStrays() (release func()) { return func() {} }

// Strays is how many children were reaped that the Reaper did not start.
func (r *Reaper) Strays() uint64 { return 0 }

// Close stops waiting.
func (r *Reaper) Close() error { return nil }
