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
		if b.blocks {
			b.dam(c)
		} else {
			b.park(c)
		}
	}
	began := time.Now()
	b.await(ctx, parkWaits*b.opts.Wait, b.look, &rest{limit: b.opts.Wait})
	b.open()
	b.waited = time.Since(began)
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
			b.leave(c, Busy)
			continue
		}
		rest = append(rest, c)
	}
	b.parked = rest
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

// dam keeps data from arriving on a connection of a tree that reads with blocking calls once it was woken, or all the time. With a high mark
// it would take a request and sleep on. What has arrived goes its way, and nothing follows it.
func (b *Batch) dam(c *conn) {
	c.drops = dropped(c.raw())
	c.dammed = setDam(c.raw()) == nil
	c.unfit = !c.dammed
	_ = b.setMark(c, 1)
}

// lift takes the dam away.
func (b *Batch) lift(c *conn) {
	if !c.dammed {
		return
	}
	c.dammed, c.missed = false, dropped(c.raw()) != c.drops
	_ = liftDam(c.raw())
}

// open parks the connections behind the dams, and takes these away, but for those on which somebody may sleep in recv(2). On the others
// nobody reads now: nothing is there, the tree has been at rest, and it waits without blocking. So nothing has to be sent again that comes from now on.
func (b *Batch) open() {
	for _, c := range b.parked {
		if c.dammed && c.verdict == between && !c.blocking {
			b.park(c)
			b.lift(c)
		}
	}
}

// rouse sees to a server that may have begun to read with a blocking call while its connection had a high mark, before it was known that it
// does that: it has a whole request then, and sleeps on for as long as nothing more comes. If it has neither read nor written for so long, it is
// woken; it answers then, and takes the connection for one whose client has ended its half.
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
	c.verdict = judge(s, history{woken: c.woken, still: now.Sub(c.moved), answered: c.answered, patience: b.opts.Wait}, head)
	return c.verdict
}

// look sees what a connection that is parked is doing by now. One whose server has to read on is not parked until it has.
func (b *Batch) look(c *conn, now time.Time) verdict {
	missed := c.dammed && dropped(c.raw()) != c.drops
	b.watch(c, now)
	b.rouse(c, now)
	switch {
	case c.unfit:
		c.verdict = busy
	case b.blocks && !c.dammed:
		if !c.flows || c.answered || now.Sub(c.moved) >= quiet {
			b.dam(c)
			c.moved = now
		}
		c.verdict = busy
	case c.dammed && c.last.unread > 0:
		c.verdict = busy // it will be read
	case c.dammed && c.verdict != between && !c.answered && missed:
		b.lift(c) // what its client sends before it has an answer is the rest of a request
		c.flows = true
	case c.dammed:
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
	if why == Kept {
		var buf [peekLine]byte
		if unread, _ := peek(c.raw(), buf[:]); Examine(unread) == Whole {
			b.count(func(*Counts) { b.vain++ })
		}
	}
	_ = b.setMark(c, 1)
	b.lift(c)
	_ = c.dup.FD.Close()
	b.count(func(c *Counts) { c.leave(why) })
}

// Release takes away what holds those of the connections with these inode numbers that the process's tree has: for the connections of a Batch of which Run was never called, because that process died.
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
		if isDammed(d.FD.Raw()) {
			_ = liftDam(d.FD.Raw())
		}
		_ = d.FD.Close()
	}
	return err
}
