package fdpass

import (
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A seat is one kernel socket of a group, and the generation that accepts from
// it. Its methods are for whoever holds the mutex of the steered socket.
type seat struct {
	fd      *FD   // owned; the generation has duplicates
	more    []*FD // owned; others of the same generation, where it listens with several
	gen     int   // 0 for nobody
	foreign bool  // systemd has it too, so that it never leaves the group
	reached bool  // by new connections, at any time

	looks      int           // since the last cutover
	watch      map[pair]bool // connections that began before that, and were not seen settled
	handshakes int           // of these, at the last look

	dialed []uint64 // cookies of connections of Dial that were closed before they were accepted

	forwarding sync.WaitGroup // the goroutine that accepts from it in the generation's stead
	forwards   bool
}

// turned notes that connections go elsewhere, or come here, from now on.
func (s *seat) turned() {
	s.looks = 0
	s.watch = make(map[pair]bool)
}

// firstLooks is in how many looks after a cutover connections are taken to have
// begun before it. A packet that was sorted by the old program may become a
// handshake after the first look. Some that belong to the new generation are
// waited for too; that costs a little time and nothing else.
const firstLooks = 2

// pending says what is on its way to the seat's generation. at is where the
// socket is, and limit how long a connection may be silent and still count.
func (s *seat) pending(c *Census, at reach, limit time.Duration) (u Unsettled) {
	u.Queued = s.queue()
	if c == nil {
		return u
	}
	if s.watch == nil {
		s.turned()
	}
	s.looks++
	for conn := range c.to(at) {
		id := conn.pair()
		if s.looks > firstLooks && !s.watch[id] {
			continue
		}
		switch {
		case conn.handshake():
			u.Handshakes++
		case conn.unread > 0:
			u.Unread++
		case conn.sent == 0 && conn.sinceRecv < limit:
			u.Young++
		default:
			delete(s.watch, id) // and it is never looked at again
			continue
		}
		s.watch[id] = true // also while a census misses it: the next one shows it
	}
	s.handshakes = u.Handshakes
	return u
}

// fds returns all of its descriptors, which are borrowed.
func (s *seat) fds() []*FD { return append([]*FD{s.fd}, s.more...) }

// queue returns how many connections wait in it to be accepted, as far as that is
// known.
func (s *seat) queue() (n int) {
	for _, fd := range s.fds() {
		if queued, _, err := tcpQueue(fd.Raw()); err == nil && queued != Unknown {
			n += queued
		}
	}
	return n
}

// settled reports whether pending has found no handshake any more that began
// before the cutover: then a connection that comes is in the queue already.
func (s *seat) settled() bool { return s.looks >= firstLooks && s.handshakes == 0 }

// forward begins to accept connections in the generation's stead, which are
// given to f. It goes on until the seat is closed.
func (s *seat) forward(f *forwarder) {
	if s.forwards {
		return
	}
	s.forwards = true
	skip := slices.Clone(s.dialed)
	for _, fd := range s.fds() {
		s.forwarding.Add(1)
		raw := fd.Raw() // stays open for as long as that: close waits
		go func() {
			defer s.forwarding.Done()
			acceptAll(raw, func(conn *FD) { f.take(conn, skip) })
		}()
	}
}

const (
	// leaveLimit bounds the wait for what is on its way to a seat that is given up,
	// after the last of it has come. A handshake takes as long as the client's
	// answer is under way.
	leaveLimit    = time.Second
	leaveInterval = time.Millisecond
)

// passOn gives what waits in the seat, and what is on its way there, to f. No
// other connections come there any more. e is where the socket is.
func (s *seat) passOn(f *forwarder, e endpoint) {
	end := time.Now().Add(f.patience)
	for quiet, queued := 0, 0; quiet < settleLooks && time.Now().Before(end); time.Sleep(leaveInterval) {
		u := s.arriving(e)
		quiet++
		if u.Queued+u.Handshakes > 0 {
			quiet = 0
		}
		if u.Queued != queued { // it gets on
			queued = u.Queued
			end = time.Now().Add(f.patience)
		}
		switch {
		case queued == 0:
		case s.foreign:
			for range queued {
				s.acceptOne(f)
			}
		default:
			s.forward(f)
		}
	}
}

// arriving is pending for a seat that is given up: what is in the queue, and, as
// far as the kernel tells, in handshakes.
func (s *seat) arriving(e endpoint) Unsettled {
	var c *Census
	at, err := e.reach()
	if s.reached && !s.settled() && err == nil {
		c, _ = takeCensus([]reach{at})
	}
	return s.pending(c, at, 0)
}

// acceptOne gives one connection of those that wait to f. If another process has
// taken them all, it does not wait for more: O_NONBLOCK is not ours to set, but
// the time that accept(2) waits belongs to the socket as well, and nobody uses it
// just now. Connections inherit it, which does not matter to f; those that come
// meanwhile are seen by the next look, and are taken too.
func (s *seat) acceptOne(f *forwarder) {
	raw := s.fd.Raw()
	timeout := func(d time.Duration) error {
		tv := unix.NsecToTimeval(d.Nanoseconds())
		return unix.SetsockoptTimeval(raw, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)
	}
	if timeout(leaveInterval) != nil {
		return
	}
	conn, _, err := unix.Accept4(raw, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	_ = timeout(0)
	if err == nil {
		f.take(NewFD(conn), s.dialed)
	}
}

// leave gives what waits in the seat to f, and closes it for every process. It
// returns how many connections were reset, because they could not be taken over.
func (s *seat) leave(f *forwarder, e endpoint) (lost int) {
	s.passOn(f, e)
	lost = s.queue()
	// A process of the generation may still have it. This takes the socket out of
	// the group all the same, and ends every accept(2) on it.
	s.shutdown()
	_ = s.close()
	return lost
}

// close closes our descriptor only. What the generation has stays open, unless
// connections are being accepted in its stead: then it has stopped accepting.
func (s *seat) close() error {
	if s.forwards {
		s.shutdown()
		s.forwarding.Wait()
	}
	var errs []error
	for _, fd := range s.fds() {
		errs = append(errs, fd.Close())
	}
	return errors.Join(errs...)
}

// shutdown ends the listening for every process that has the sockets.
func (s *seat) shutdown() {
	for _, fd := range s.fds() {
		_ = unix.Shutdown(fd.Raw(), unix.SHUT_RDWR) // one that does not listen any more has that behind it
	}
}
