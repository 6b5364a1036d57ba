package load

import (
	"context"
	"errors"
	"sync"
	"time"
)

// maxQueue bounds how many due requests may wait for a worker. Past it requests are counted as [Local] failures.
const maxQueue = 1 << 16

// errBusy is why a due request was never sent.
var errBusy = errors.New("all workers were busy and the queue of due requests was full")

// Client is a load that runs.
type Client struct {
	plan   *plan
	cancel context.CancelFunc

	board    // done when all workers are gone
	result   *Result
	versions map[string]int
	answered int
}

// Start begins to send. It returns at once; the load ends by itself at the bounds of its configuration, or with ctx.
func Start(ctx context.Context, c Config) (*Client, error) {
	p, err := c.prepare()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Duration)
	cl := &Client{
		plan:     p,
		cancel:   cancel,
		result:   &Result{Begin: time.Now(), Examples: map[Kind]string{}},
		versions: map[string]int{},
		board:    newBoard(),
	}
	due := make(chan time.Time, maxQueue)
	var workers sync.WaitGroup
	workers.Add(1 + p.Workers)
	go func() {
		defer workers.Done()
		defer close(due)
		cl.schedule(ctx, due)
	}()
	for range p.Workers {
		go func() {
			defer workers.Done()
			cl.work(ctx, due)
		}()
	}
	go func() {
		defer close(cl.done)
		defer cancel()
		workers.Wait()
	}()
	return cl, nil
}

// Stop ends the load and returns what came of it. It blocks until the requests under way are answered or timed out, and may
// be called again.
func (cl *Client) Stop() *Result {
	cl.cancel()
	<-cl.done
	return cl.result
}

// Done is closed when the load has ended by itself or was stopped.
func (cl *Client) Done() <-chan struct{} { return cl.done }

// Answered blocks until n requests in all were answered well. Its error is ctx's, or [ErrEnded].
func (cl *Client) Answered(ctx context.Context, n int) error {
	return cl.await(ctx, func() bool { return cl.answered >= n })
}

// Version blocks until version has answered a request. Its error is ctx's, or [ErrEnded].
func (cl *Client) Version(ctx context.Context, version string) error {
	return cl.await(ctx, func() bool { _, ok := cl.versions[version]; return ok })
}

// schedule says when requests fall due, until ctx ends or all are spent.
func (cl *Client) schedule(ctx context.Context, due chan<- time.Time) {
	if cl.plan.Rate == 0 {
		for range cl.plan.MaxRequests {
			// The zero time means "as soon as a worker is free". The channel must not run ahead of the workers.
			select {
			case due <- time.Time{}:
			case <-ctx.Done():
				return
			}
		}
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range cl.plan.MaxRequests {
		at := cl.result.Begin.Add(time.Duration(float64(i) / cl.plan.Rate * float64(time.Second)))
		if wait := time.Until(at); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		} else if ctx.Err() != nil {
			return
		}
		select {
		case due <- at:
		default:
			cl.record(at, at, answer{kind: Local, err: errBusy})
		}
	}
}

// work sends one due request after another. Those that are still queued when ctx ends are never sent.
func (cl *Client) work(ctx context.Context, due <-chan time.Time) {
	var c *conn
	defer func() {
		if c != nil {
			c.close()
		}
	}()
	for at := range due {
		if ctx.Err() != nil {
			return
		}
		start := time.Now()
		if at.IsZero() {
			at = start
		}
		if c != nil && c.idleClosed() {
			c.close()
			c = nil
			cl.mu.Lock()
			cl.result.IdleClosed++
			cl.mu.Unlock()
		}
		if c == nil {
			var err error
			if c, err = dial(cl.plan); err != nil {
				cl.record(at, start, answer{kind: connectKind(err), err: err})
				continue
			}
		}
		a := exchange(cl.plan, c)
		cl.record(at, start, a)
		if a.close {
			c.close()
			c = nil
		}
	}
}

// record notes what became of the request that was due and sent at those times and ends now.
func (cl *Client) record(due, start time.Time, a answer) {
	end := time.Now()
	cl.mu.Lock()
	defer cl.mu.Unlock()
	r := cl.result
	q := Request{Due: due.Sub(r.Begin), Start: start.Sub(r.Begin), End: end.Sub(r.Begin), Version: -1, Kind: a.kind}
	if a.version != "" {
		v, seen := cl.versions[a.version]
		if !seen {
			v = len(r.Versions)
			cl.versions[a.version] = v
			r.Versions = append(r.Versions, a.version)
			if cl.plan.FirstAnswer != nil {
				cl.plan.FirstAnswer(a.version, end)
			}
		}
		q.Version = v
	}
	if a.kind == OK {
		cl.answered++
	} else if r.Examples[a.kind] == "" {
		r.Examples[a.kind] = a.err.Error()
	}
	r.Requests = append(r.Requests, q)
	cl.changedLocked()
}
