package carry

import (
	"context"
	"fmt"
	"time"

	"github.com/zddsupervisor/zddsupervisor/child"
)

const (
	// lookInterval is the time between two looks at connections, unless a look takes so long that they would take more than
	// a part of the time.
	lookInterval = time.Millisecond
	lookRest     = 3

	// peekLine is enough to see whether bytes begin with a request line.
	peekLine = 2 << 10
)

// Park duplicates those of the connections with these inode numbers that the process's tree has, and parks them. It
// blocks until each is between two requests, at most as long as Options.Wait says; those that are not by then are left
// alone. The tree has to be told to stop right after it, since their clients wait; then Run has to be called in any
// case. The error says why none or not all could be duplicated. The Batch is good then, too.
func Park(ctx context.Context, p *child.Process, inodes []uint64, o Options) (*Batch, error) {
	b := newBatch(p, o)
	err := b.duplicate(inodes)
	now := time.Now()
	end := now.Add(b.opts.Wait)
	for _, c := range b.parked {
		b.park(c, now)
	}
	for {
		began := time.Now()
		waiting := 0
		for _, c := range b.parked {
			if b.look(c, began) != between {
				waiting++
			}
		}
		if waiting == 0 || ctx.Err() != nil || p.Exiting() || began.After(end) {
			break
		}
		time.Sleep(max(lookInterval, lookRest*time.Since(began)))
	}
	kept := b.parked[:0]
	for _, c := range b.parked {
		if c.verdict == between {
			kept = append(kept, c)
			continue
		}
		b.leave(c, Busy)
	}
	b.parked = kept
	return b, err
}

// duplicate gets the connections.
func (b *Batch) duplicate(inodes []uint64) error {
	wanted := make(map[uint64]bool, len(inodes))
	for _, inode := range inodes {
		wanted[inode] = true
	}
	dups, refused, err := b.process.Tree().Duplicates(wanted)
	for range refused {
		b.count(func(c *Counts) { c.leave(Refused) })
	}
	for _, d := range dups {
		if why := unsuited(d.FD.Raw()); why != "" {
			_ = d.FD.Close()
			b.count(func(c *Counts) { c.leave(why) })
			continue
		}
		b.parked = append(b.parked, &conn{dup: d, mark: 1})
	}
	if err != nil {
		return fmt.Errorf("duplicate the connections of process %d: %w", b.process.Pid(), err)
	}
	return nil
}

// park sets a connection's mark.
func (b *Batch) park(c *conn, now time.Time) {
	c.verdict, c.moved = busy, now
	_ = b.setMark(c, high) // a socket that is closed shows in the sample
	if s, err := takeSample(c.raw()); err == nil {
		c.last, c.woken = s, s.received
	}
}

func (b *Batch) setMark(c *conn, bytes int) error {
	if c.mark == bytes {
		return nil
	}
	c.mark = bytes
	return setMark(c.raw(), bytes)
}

// look sees what a connection is doing by now.
func (b *Batch) look(c *conn, now time.Time) verdict {
	s, err := takeSample(c.raw())
	if err != nil {
		c.moved, c.verdict = now, busy
		return busy
	}
	if s.moved(c.last) {
		c.moved = now
	}
	c.last = s
	head := Nothing
	if s.unread > 0 {
		var buf [peekLine]byte
		unread, _ := peek(c.raw(), buf[:])
		head = Examine(unread)
	}
	c.verdict = judge(s, history{woken: c.woken, still: now.Sub(c.moved)}, head)
	switch {
	case c.verdict == reading:
		// It is woken for what is there, and for more, until it has read so far.
		_ = b.setMark(c, 1)
		c.woken = s.received
	case c.mark == 1:
		_ = b.setMark(c, high)
		if s, err := takeSample(c.raw()); err == nil {
			c.woken = s.received
		}
		c.moved = now
		c.verdict = busy
	}
	return c.verdict
}

// leave leaves a connection to those who have it, as it was.
func (b *Batch) leave(c *conn, why Reason) {
	_ = b.setMark(c, 1)
	_ = c.dup.FD.Close()
	b.count(func(c *Counts) { c.leave(why) })
}

// Release sets the low water marks of those of the connections with these inode numbers that the process's tree has back
// to what they were: for the connections of a Batch of which Run was never called, because that process died.
func Release(p *child.Process, inodes []uint64) error {
	b := newBatch(p, Options{})
	defer b.hurry()
	wanted := make(map[uint64]bool, len(inodes))
	for _, inode := range inodes {
		wanted[inode] = true
	}
	dups, _, err := p.Tree().Duplicates(wanted)
	for _, d := range dups {
		_ = setMark(d.FD.Raw(), 1)
		_ = d.FD.Close()
	}
	return err
}
