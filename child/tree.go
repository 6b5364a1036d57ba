package child

import (
	"context"

	"golang.org/x/sys/unix"
)

// A Tree is all processes of one generation.
type Tree struct{}

// Contains says whether the process pid belongs to the tree.
func (t *Tree) Contains(pid int) bool { return false }

// Members are the pids of those that live.
func (t *Tree) Members() ([]int, error) { return nil, errTodo }

// Signal sends sig to every member; os.ErrProcessDone if there is none.
func (t *Tree) Signal(sig unix.Signal) error { return errTodo }

// Kill sends SIGKILL until nobody is left.
func (t *Tree) Kill(ctx context.Context) error { return errTodo }

// Gone blocks until nobody is left.
func (t *Tree) Gone(ctx context.Context) error { return errTodo }
