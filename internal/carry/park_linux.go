package carry

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/zddsupervisor/zddsupervisor/child"
)

const (
	// lookInterval is the time between two looks at connections, unless a look takes so long that they would take more than
	// a part of the time.
	lookInterval = time.Millisecond
	lookRest     = 3

	// parkWaits is how many times Options.Wait those connections may take to come between two requests, once parked, on
	// which requests have come and gone in that time.
	parkWaits = 4

	// stoppedWaits is how many times a tree gets its time again that was stopped when it was over.
	stoppedWaits = 3

	// peekLine is enough to see whether bytes begin with a request line.
	peekLine = 2 << 10
)

// Park duplicates those of the connections with these inode numbers that the process's tree has, and parks them. It
// blocks until each is between two requests, at most five times as long as Options.Wait says, and Waits times for a tree that is
// stopped by a signal meanwhile; those that are not by then are left alone. The tree has to be told to stop right after it, since their clients wait; then Run has to be called in any
// case. The error says why none or not all could be duplicated. The Batch is good then, too.
func Park(ctx context.Context, p *child.Process, inodes []uint64, o Options) (*Batch, error) {
	b := newBatch(p, o)
	b.caught, _ = p.Catches(b.opts.Signal) // of one that has ended nothing is found
	err := b.duplicate(inodes)
	// Unparked first: nobody has to wait, and those on which nothing happens show, and those in the middle of something long.
	b.await(ctx, b.opts.Wait, b.watch, nil)
	b.leaveLong()
	for _, c := range b.parked {
		if !b.blocks {
			b.park(c)
		}
	}
	began := time.Now()
	b.await(ctx, parkWaits*b.opts.Wait, b.look, &rest{limit: b.opts.Wait})
	b.waited = time.Since(began)
	kept := b.parked[:0]
	for _, c := range b.parked {
		if c.verdict == between {
			kept = append(kept, c)
			continue
		}
		b.leave(c, c.why())
	}
	b.parked = kept
	return b, err
}

// await looks at all connections again and again until all are between two requests, and were still after the tree has been at
// rest, or have been given the time that they may have. One that is closed meanwhile is let go at once: its client may wait for
// that. resting may be nil for a tree whose rest does not matter.
func (b *Batch) await(ctx context.Context, limit time.Duration, look func(*conn, time.Time) verdict, resting *rest) {
	end, extensions := time.Now().Add(limit), stoppedWaits
	for {
		began := time.Now()
		waiting, rest := 0, b.parked[:0]
		for _, c := range b.parked {
			if !c.dup.Held() {
				b.leave(c, Ended)
				continue
			}
			if look(c, began) != between {
				waiting++
			}
			rest = append(rest, c)
		}
		b.parked = rest
		if waiting == 0 && resting.over(b.process.Tree()) || ctx.Err() != nil || b.process.Exiting() {
			return
		}
		if began.After(end) {
			activity, err := b.process.Tree().Activity()
			if err != nil || activity != child.Stopped || extensions == 0 {
				return
			}
			// It had no chance.
			end, extensions = time.Now().Add(limit), extensions-1
		}
		if waiting > 0 {
			resting.again()
		}
		time.Sleep(max(lookInterval, lookRest*time.Since(began)))
	}
}

// leaveLong leaves those alone that are in the middle of something, and that have been since they were seen first: the
// others would wait for them. Those of a server that sleeps in recv(2) between two requests are among them.
func (b *Batch) leaveLong() {
	rest := b.parked[:0]
	for _, c := range b.parked {
		if c.verdict != between && c.last.consumed() == c.first {
			b.leave(c, c.why())
			continue
		}
		rest = append(rest, c)
	}
	b.parked = rest
}

// why says why a connection is left alone that is not between two requests.
func (c *conn) why() Reason {
	if c.blocking {
		return Blocking
	}
	return Busy
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
		c := &conn{dup: d, mark: 1, moved: time.Now()}
		b.noteCatches(d)
		c.last, _ = takeSample(c.raw())
		c.first = c.last.consumed()
		b.parked = append(b.parked, c)
	}
	if err != nil {
		return fmt.Errorf("duplicate the connections of process %d: %w", b.process.Pid(), err)
	}
	return nil
}

// noteCatches notes whether the process that has a connection has a handler for the signal. Of one that has ended nothing is
// found, and so that it has none.
func (b *Batch) noteCatches(d *child.Duplicate) {
	pid, _ := d.Holder()
	if _, known := b.catches[pid]; !known {
		b.catches[pid], _ = d.HolderCatches(b.opts.Signal)
	}
}

// park sets a connection's mark.
func (b *Batch) park(c *conn) {
	_ = b.setMark(c, high) // a socket that is closed shows in the sample
	c.woken = math.MaxUint64
	if s, err := takeSample(c.raw()); err == nil {
		c.woken = s.received
	}
}

func (b *Batch) setMark(c *conn, bytes int) error {
	if c.mark == bytes {
		return nil
	}
	c.mark = bytes
	return setMark(c.raw(), bytes)
}

// parkIdle parks a connection on which nothing is to be read, of a server that reads with blocking calls once it was woken. Bytes that
// came meanwhile may have woken it: then it is not parked.
func (b *Batch) parkIdle(c *conn) {
	b.park(c)
	s, err := takeSample(c.raw())
	if err == nil && !blocks(c.raw()) && s.unread == 0 && !s.moved(c.last) {
		return
	}
	_ = b.setMark(c, 1)
	c.caught = true
}

// rouse sees to a server that may have begun to read with a blocking call while its connection had a high mark: it has a whole request
// then, and sleeps on for as long as nothing more comes. If it has neither read nor written for so long, it is woken; it answers then,
// and takes the connection for one whose client has ended its half.
func (b *Batch) rouse(c *conn, now time.Time) {
	if c.caught && c.blocking && now.Sub(c.moved) > b.opts.Wait {
		c.caught = false
		wake(c.raw())
	}
}

// watch sees what a connection is doing by now, whether it is parked or not.
func (b *Batch) watch(c *conn, now time.Time) verdict {
	s, err := takeSample(c.raw())
	c.blocking = blocks(c.raw())
	b.blocks = b.blocks || c.blocking
	c.caught = c.caught || c.blocking && c.mark != 1
	if err != nil {
		c.moved, c.answered, c.verdict = now, false, busy
		return busy
	}
	if s.moved(c.last) {
		c.moved = now
	}
	if s.consumed() != c.last.consumed() {
		c.answered = false
	}
	if s.written != c.last.written {
		c.caught = false
	}
	c.answered = c.answered || s.answers(c.last)
	c.last = s
	head := Nothing
	if s.unread > 0 {
		var buf [peekLine]byte
		unread, _ := peek(c.raw(), buf[:])
		head = Examine(unread)
	}
	if c.blocking {
		c.verdict = busy
		return busy
	}
	c.verdict = judge(s, history{woken: c.woken, still: now.Sub(c.moved), answered: c.answered, patience: b.opts.Wait}, head)
	return c.verdict
}

// look sees what a connection that is parked is doing by now. One whose server has to read on is not parked until it has.
func (b *Batch) look(c *conn, now time.Time) verdict {
	b.watch(c, now)
	b.rouse(c, now)
	switch {
	case b.blocks && c.mark == 1:
		if c.verdict == between && c.last.unread == 0 {
			b.parkIdle(c)
		}
		c.verdict = busy
	case b.blocks && c.verdict != between:
		_ = b.setMark(c, 1)
	case c.verdict == reading:
		// It is woken for what is there, and for more, until it has read so far.
		_ = b.setMark(c, 1)
	case c.mark == 1:
		b.park(c)
		c.moved, c.verdict = now, busy
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
