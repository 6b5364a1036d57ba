package carry

import (
	"context"
	"time"
)

// serveWait bounds one wait for requests.
const serveWait = 20 * time.Millisecond

// Run sees to the connections of the batch, from the moment at which the tree was told to stop. It blocks until none is
// left. If ctx ends, all that is left is cut off.
func (b *Batch) Run(ctx context.Context) {
	defer b.hurry()
	b.told = time.Now()
	r := newRelays(b.opts)
	b.mu.Lock()
	b.relays = r
	b.mu.Unlock()
	for _, c := range b.parked {
		c.seen = b.told
	}
	for ctx.Err() == nil && len(b.parked)+len(b.held) > 0 {
		began := time.Now()
		b.follow(began)
		wait := serveWait
		if len(b.parked) > 0 {
			wait = max(lookInterval, lookRest*time.Since(began))
		}
		select {
		case <-b.hurried:
			b.closeIdle()
		default:
		}
		b.serve(wait)
	}
	for _, c := range b.parked {
		b.leave(c, Kept)
	}
	for _, c := range b.held {
		_ = c.dup.FD.Close()
	}
	b.parked, b.held = nil, nil
	b.relays.close(ctx)
}

// closeIdle closes what has no request.
func (b *Batch) closeIdle() {
	rest := b.held[:0]
	for _, c := range b.held {
		if c.head == Nothing {
			_ = c.dup.FD.Close()
			continue
		}
		rest = append(rest, c)
	}
	b.held = rest
}
