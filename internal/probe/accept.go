package probe

import (
	"context"
	"fmt"
)

// Accept is a connection that has to be accepted.
type Accept struct {
	Socket string // the name of the socket
}

// Ask connects once, and blocks until a process has accepted the connection or ctx ends.
func (a Accept) Ask(ctx context.Context, t Target) error {
	if err := t.Accept(ctx, a.Socket); err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

// String names the question for messages.
func (a Accept) String() string { return "accepting a connection on socket " + a.Socket }
