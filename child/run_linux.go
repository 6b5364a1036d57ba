package child

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// killPatience is how long Run waits for what it has killed. Only a process that
// hangs in the kernel takes longer.
const killPatience = 10 * time.Second

// Run starts a process and blocks until it has ended. What it leaves of its tree
// is killed. When ctx ends first, the whole tree is, and the error is the cause of
// ctx's end, wrapped. An exit status other than 0 is not an error. A program that
// cannot be run is an *ExecError.
func (r *Reaper) Run(ctx context.Context, c Command) (Exit, error) {
	p, err := r.Start(ctx, c)
	if err != nil {
		return Exit{}, err
	}
	defer p.Close()
	select {
	case <-p.Done():
		err = nil
	case <-ctx.Done():
		err = fmt.Errorf("run %s: %w", c.Path, context.Cause(ctx))
	}
	killCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
	defer cancel()
	if killed := p.Tree().Kill(killCtx); killed != nil {
		return Exit{}, errors.Join(err, fmt.Errorf("end what %s has left: %w", c.Path, killed))
	}
	return p.Exit(), err
}
