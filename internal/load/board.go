package load

import (
	"context"
	"errors"
	"sync"
)

// ErrEnded means that the load was over before that happened which was waited for.
var ErrEnded = errors.New("the load ended first")

// A board is where a load's state is kept for those who wait for something to be true of it.
type board struct {
	mu   sync.Mutex    // guards the state
	news chan struct{} // closed and replaced whenever the state has changed
	done chan struct{} // closed when it does not change any more
}

func newBoard() board { return board{news: make(chan struct{}), done: make(chan struct{})} }

// changedLocked wakes those who wait.
func (b *board) changedLocked() {
	close(b.news)
	b.news = make(chan struct{})
}

// await blocks until condition, which is called with the lock held, is true. Its error is ctx's, or ErrEnded.
func (b *board) await(ctx context.Context, condition func() bool) error {
	for {
		b.mu.Lock()
		ok, news := condition(), b.news
		b.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		case <-b.done:
			// The last change may have come between the look and now.
			b.mu.Lock()
			defer b.mu.Unlock()
			if condition() {
				return nil
			}
			return ErrEnded
		}
	}
}
