package drill

import (
	"slices"
	"sync"
	"time"
)

// pool keeps connections alive. It owns those that nobody has reserved.
type pool struct {
	dialer *dialer
	size   int

	mu    sync.Mutex // guards what follows, and which connection is reserved
	conns []conn     // in the order of their use
	ended int        // connections that the service ended between requests
}

// take returns a reserved connection: a kept one in turn, or a new one while there are fewer than the pool's size, or all of
// them are busy.
func (p *pool) take(deadline time.Time) (conn, Kind, error) {
	if c := p.kept(); c != nil {
		return c, OK, nil
	}
	c, kind, err := p.dialer.dial(deadline, false)
	if err != nil {
		return nil, kind, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, c)
	return c, OK, nil
}

// kept reserves a connection that is there, or returns nil.
func (p *pool) kept() conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := 0; i < len(p.conns) && len(p.conns) >= p.size; {
		c := p.conns[i]
		switch c.reserve() {
		case reserved:
			p.conns = append(slices.Delete(p.conns, i, i+1), c)
			return c
		case ended:
			p.conns = slices.Delete(p.conns, i, i+1)
			if !c.broken() {
				p.ended++
			}
			c.close()
		default:
			i++
		}
	}
	return nil
}

// put gives a reserved connection back. It is closed if it is of no more use, or one too many.
func (p *pool) put(c conn, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if shared := c.release(); shared || !over && len(p.conns) <= p.size {
		return // a shared one that is over is found to be so when it is its turn
	}
	p.conns = slices.DeleteFunc(p.conns, func(other conn) bool { return other == c })
	c.close()
}

// close ends all connections. None is reserved any more.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.close()
	}
	p.conns = nil
}
