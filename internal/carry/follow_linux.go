package carry

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
)

const (
	// straggle is how long after the first connection a process may close the last of those that are idle for it. Those that
	// it has still open then, when it has nothing else to do, it keeps for a reason.
	straggle = 250 * time.Millisecond

	// A client that was answered a moment ago may wait for the connection's end, because the answer says so. And a process
	// that ends without closing a connection has not said that it is idle. Such a connection is not held longer than the
	// next request takes that is under way already.
	fresh     = 50 * time.Millisecond
	shortHold = time.Second

	// exitNews is how long to wait for the news of how a process ended that the kernel is taking apart.
	exitNews = 500 * time.Millisecond
)

// follow looks at the connections that are parked: the tree goes on with one, or keeps it, or has closed it.
func (b *Batch) follow(now time.Time) {
	asleep := sync.OnceValue(func() bool {
		activity, err := b.process.Tree().Activity()
		return err == nil && activity == child.Asleep
	})
	rest := b.parked[:0]
	var gone []*conn
	for _, c := range b.parked {
		why, open := b.whereabouts(c, now, asleep)
		switch {
		case why == Shut:
			b.drop(c, why)
		case why != "":
			b.leave(c, why)
		case open:
			c.seen = now
			rest = append(rest, c)
		default:
			gone = append(gone, c)
		}
	}
	if len(gone) > 0 {
		rest = append(rest, b.takeOver(gone, now)...)
	}
	b.parked = rest
}

// whereabouts says why a connection is to be left, or else whether those who had it have it open.
func (b *Batch) whereabouts(c *conn, now time.Time, asleep func() bool) (why Reason, open bool) {
	s, err := takeSample(c.raw())
	switch {
	case errors.Is(err, errMoving):
		return "", true
	case err != nil:
		return Ended, false
	case s.shut(c.last):
		return Shut, false
	case s.state != established && !(s.state == closeWait && s.unread > 0):
		return Ended, false
	case s.moved(c.last):
		return Resumed, false
	case !c.dup.Held():
		return "", false
	case now.Sub(b.told) > b.opts.LetGo:
		return Kept, true
	}
	pid, _ := c.dup.Holder()
	if first, known := b.letGo[pid]; known && now.Sub(first) > straggle && asleep() { // and not just held up before it gets to it
		return Kept, true
	}
	return "", true
}

// takeOver takes connections over that seem to have been closed, and returns those of which it has to be seen yet.
func (b *Batch) takeOver(gone []*conn, now time.Time) (rest []*conn) {
	// Somebody else of the tree may have it, or another descriptor.
	open, known, err := b.process.Tree().Sockets()
	for _, c := range gone {
		if err != nil || !known || open[c.dup.Inode] {
			if now.Sub(b.told) > b.opts.LetGo {
				b.leave(c, Kept)
				continue
			}
			c.seen = now
			rest = append(rest, c)
			continue
		}
		pid, exiting := c.dup.Holder()
		if c.blocking && !exiting && now.Sub(b.told) <= b.opts.LetGo {
			rest = append(rest, c) // a thread that sleeps in recv(2) has it still, without a descriptor
			continue
		}
		if c.blocking && !exiting {
			b.drop(c, Kept)
			continue
		}
		if !exiting && b.letGo[pid].IsZero() {
			b.letGo[pid] = now
		}
		if exiting && pid == b.process.Pid() {
			select {
			case <-b.process.Done():
			default:
				if now.Sub(c.seen) < exitNews {
					rest = append(rest, c)
					continue
				}
			}
			// One that has caught the signal and dies of it all the same has sent it to itself, once all was done.
			if exit := b.process.Exit(); !exit.Known || exit.Signal != 0 && !(b.caught && exit.Signal == b.opts.Signal) {
				b.drop(c, Crashed)
				continue
			}
		}
		// How a worker has ended only its parent knows. One that has no handler was killed, and has finished nothing.
		if exiting && pid != b.process.Pid() && !b.catches[pid] {
			b.drop(c, Crashed)
			continue
		}
		// Now that nobody else has it, what it shows stays so.
		s, err := takeSample(c.raw())
		switch {
		case errors.Is(err, errMoving):
			rest = append(rest, c)
		case err == nil && s.shut(c.last):
			b.drop(c, Shut)
		case err != nil || s.state != established && !(s.state == closeWait && s.unread > 0):
			b.drop(c, Ended)
		case s.moved(c.last):
			b.drop(c, Resumed)
		default:
			b.hold(c, s, exiting, now)
		}
	}
	return rest
}

// drop closes a connection that nobody else has any more.
func (b *Batch) drop(c *conn, why Reason) {
	b.lift(c)
	s, err := takeSample(c.raw())
	_ = c.dup.FD.Close()
	b.count(func(n *Counts) {
		n.leave(why)
		if c.missed || err == nil && s.unread > 0 {
			n.Lost++ // whoever closes it resets it
		}
	})
}

// hold keeps a connection that was taken over until its next request comes. killed says that it was not closed by the
// process that had it, but with it.
func (b *Batch) hold(c *conn, s sample, killed bool, now time.Time) {
	b.count(func(c *Counts) { c.Carried++ })
	c.until = now.Add(b.opts.Idle)
	b.lift(c)
	if !c.missed && (killed || s.unread == 0 && s.received > 0 && s.sinceSent < fresh) {
		c.until = now.Add(min(b.opts.Idle, shortHold))
	}
	_ = b.setMark(c, 1)
	b.held = append(b.held, c)
}

// serve waits, at most for a time, until something comes on the connections that were taken over, and sees to it.
func (b *Batch) serve(wait time.Duration) {
	now := time.Now()
	room := b.relays.room()
	fds := make([]unix.PollFd, 0, len(b.held))
	for _, c := range b.held {
		fd := unix.PollFd{Fd: int32(c.raw()), Events: unix.POLLIN}
		if c.head == Whole {
			if room > 0 {
				wait = 0
			}
			fd.Fd = -1 // it is known what waits there
		}
		fds = append(fds, fd)
		wait = min(wait, max(0, c.until.Sub(now)))
	}
	if _, err := unix.Poll(fds, int(wait.Round(time.Millisecond)/time.Millisecond)); err != nil && err != unix.EINTR {
		time.Sleep(wait)
	}
	now = time.Now()
	rest := b.held[:0]
	for i, c := range b.held {
		if fds[i].Revents != 0 {
			if !b.receive(c, now) {
				continue
			}
		}
		switch {
		case c.head == Whole && room > 0:
			room--
			b.relays.begin(c.dup.FD)
		case c.head != Whole && now.After(c.until):
			b.expire(c)
		default:
			rest = append(rest, c)
		}
	}
	b.held = rest
}

// headLimit is how long the head of a request may take from its first byte.
const headLimit = 10 * time.Second

// receive looks at what has come, and reports whether there is a use for the connection still.
func (b *Batch) receive(c *conn, now time.Time) bool {
	buf := b.relays.buffer[:]
	unread, ended := peek(c.raw(), buf)
	if ended {
		_ = c.dup.FD.Close() // the client has closed it
		return false
	}
	before := c.head
	switch c.head = Examine(unread); c.head {
	case Nothing, Whole:
	case Partial:
		if before != Partial {
			c.until = now.Add(headLimit)
		}
		// Nobody else goes by the mark any more: more has to come than there is.
		if s, err := takeSample(c.raw()); err != nil || s.state == closeWait {
			b.refuse(c, "")
			return false
		}
		_ = b.setMark(c, len(unread)+1)
	case TooLong:
		b.refuse(c, "431 Request Header Fields Too Large")
		return false
	case Malformed:
		b.refuse(c, "400 Bad Request")
		return false
	default:
		b.refuse(c, "")
		return false
	}
	return true
}

// refuse answers what cannot be passed on, with a status or with nothing, and closes the connection.
func (b *Batch) refuse(c *conn, status string) {
	if status != "" {
		answer := "HTTP/1.1 " + status + "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
		_, _ = unix.SendmsgN(c.raw(), []byte(answer), nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		// What is unread would turn the close into a reset, which may overtake the answer.
		_ = unix.Shutdown(c.raw(), unix.SHUT_WR)
		var rest [peekLine]byte
		for range maxHead / peekLine {
			if n, _, err := unix.Recvfrom(c.raw(), rest[:], unix.MSG_DONTWAIT); n <= 0 || err != nil {
				break
			}
		}
	}
	_ = c.dup.FD.Close()
	b.count(func(c *Counts) { c.Lost++ })
}

// expire closes a connection on which nothing, or no whole request, has come in its time.
func (b *Batch) expire(c *conn) {
	if c.head == Partial {
		b.refuse(c, "408 Request Timeout")
		return
	}
	_ = c.dup.FD.Close()
}
