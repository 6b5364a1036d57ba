package child

import (
	"context"
	"fmt"
	"time"
)

// killPatience is how long Run waits for what it has killed. Only a process that
// hangs in the kernel takes longer.
const killPatience = 10 * time.Second

// Run starts a process and blocks until it has ended. When ctx ends first, its
// whole tree is killed and the error is the cause of ctx's end, wrapped. An exit
// status other than 0 is not an error. A program that cannot be run is an
// *ExecError.
func (r *Reaper) Run(ctx context.Context, c Command) (Exit, error) {
	p, err := r.Start(ctx, c)
	if err != nil {
		return Exit{}, err
	}
	defer p.Close()
	select {
	case <-p.Done():
		return p.Exit(), nil
	case <-ctx.Done():
	}
	killCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killPatience)
	defer cancel()
	if err := p.Tree().Kill(killCtx); err != nil {
		return Exit{}, fmt.Errorf("run %s: %w, and then: %w", c.Path, context.Cause(ctx), err)
	}
	return p.Exit(), fmt.Errorf("run %s: %w", c.Path, context.Cause(ctx))
}
