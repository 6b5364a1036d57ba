package fdpass

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A seat is one kernel socket of a group, and the generation that accepts from
// it. Its methods are for whoever holds the mutex of the steered socket.
type seat struct {
	fd      *FD  // owned; the generation has duplicates
	gen     int  // 0 for nobody
	foreign bool // systemd has it too, so that it never leaves the group

	looks int           // since the last cutover
	watch map[pair]bool // connections that began before that, and were not seen settled

	dialed []netip.AddrPort // where connections of Dial came from that were not answered

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
	if queued, _, err := tcpQueue(s.fd.Raw()); err == nil && queued != Unknown {
		u.Queued = queued
	}
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
	return u
}

// forward begins to accept connections in the generation's stead, which are
// given to f. It goes on until the seat is closed.
func (s *seat) forward(f *forwarder) {
	if s.forwards {
		return
	}
	s.forwards = true
	s.forwarding.Add(1)
	raw := s.fd.Raw() // stays open for as long as that: close waits
	skip := slices.Clone(s.dialed)
	go func() {
		defer s.forwarding.Done()
		acceptAll(raw, func(conn *FD) { f.take(conn, skip) })
	}()
}

// leaveLooks is how often a seat that is given up is looked at until its queue is
// empty: more than enough for as many as can wait there.
const (
	leaveLooks    = 1000
	leaveInterval = time.Millisecond
)

// leave gives what waits in the seat to f, and closes it for every process. It
// returns how many connections were reset, because they could not be taken over.
func (s *seat) leave(f *forwarder) (lost int) {
	for range leaveLooks {
		queued, _, err := tcpQueue(s.fd.Raw())
		if err != nil || queued <= 0 {
			break
		}
		s.forward(f)
		time.Sleep(leaveInterval)
	}
	queued, _, err := tcpQueue(s.fd.Raw())
	if err == nil && queued > 0 {
		lost = queued
	}
	// A process of the generation may still have it. This takes the socket out of
	// the group all the same, and ends every accept(2) on it.
	_ = unix.Shutdown(s.fd.Raw(), unix.SHUT_RDWR)
	_ = s.close()
	return lost
}

// close closes our descriptor only. What the generation has stays open, unless
// connections are being accepted in its stead: then it has stopped accepting.
func (s *seat) close() error {
	if s.forwards {
		_ = unix.Shutdown(s.fd.Raw(), unix.SHUT_RDWR)
		s.forwarding.Wait()
	}
	return s.fd.Close()
}
