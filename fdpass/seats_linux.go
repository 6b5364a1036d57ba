package fdpass

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

func (st *steered) Join(gen, heirOf int) (*FD, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return nil, err
	}
	s, err := st.seatFor(gen, heirOf)
	if err != nil {
		return nil, err
	}
	return s.fd.Dup()
}

// seatFor returns the seat that gen is to have. The caller holds mu.
func (st *steered) seatFor(gen, heirOf int) (*seat, error) {
	for _, from := range []int{gen, heirOf, 0} { // its own, that of the one before it, or one that nobody has
		s := st.seatOf(from)
		if s == nil || s.forwards { // what comes there is passed on
			continue
		}
		if _, err := st.revive(s); err != nil {
			return nil, err
		}
		if st.target == from {
			st.target = gen
		}
		if st.canary != 0 && st.canary == from {
			st.canary = gen
		}
		s.gen = gen
		return s, nil
	}
	if len(st.seats) == MaxSeats {
		if s, err := st.makeRoom(); err != nil {
			return nil, err
		} else if s != nil { // not to be had back
			s.gen = gen
			return s, nil
		}
	}
	// The program is there before the one that it keeps connections from.
	if err := st.steer(); err != nil {
		return nil, err
	}
	fd, err := st.another()
	if err != nil {
		return nil, err
	}
	s := &seat{fd: fd, gen: gen}
	st.seats = append(st.seats, s)
	return s, nil
}

// makeRoom takes away a seat that connections do not go to. If it is one that
// never leaves, it is returned: its next generation has to share it with one
// that was told to stop. The caller holds mu.
func (st *steered) makeRoom() (*seat, error) {
	i := slices.IndexFunc(st.seats, func(s *seat) bool { return s.gen != st.target })
	s := st.seats[i]
	if err := st.turnAway(s.gen); err != nil {
		return nil, err
	}
	if s.foreign {
		st.log.Warn("two generations share a socket of systemd's, because the older one still has it", "socket", st.spec.FDName(), "older", s.gen)
		return s, nil
	}
	return nil, st.remove(s)
}

func (st *steered) Revive(gen int) (was bool, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return false, err
	}
	s := st.seatOf(gen)
	if s == nil || s.forwards || st.retires {
		return false, nil
	}
	if was, err = st.revive(s); was {
		st.repaired++
	}
	return was, err
}

// revive makes the socket of a seat listen again where its generation has shut it
// down: the next one is to have one that works. It reports whether that was so. The
// caller holds mu.
func (st *steered) revive(s *seat) (was bool, err error) {
	if _, limit, err := tcpQueue(s.fd.Raw()); err != nil || limit != Unknown {
		return false, err
	}
	st.log.Warn("a generation has shut down the socket that it was lent, so that clients were refused; it listens again for the next one", "socket", st.spec.FDName(), "generation", s.gen)
	addr, err := st.endpoint.addrPort()
	if err != nil {
		return true, err
	}
	sa, _, err := target{addr: addr}.sockaddr()
	if err != nil {
		return true, err
	}
	// A port that was not asked for by number is lost with the shutdown.
	if err := unix.Bind(s.fd.Raw(), sa); err != nil && err != unix.EINVAL {
		return true, os.NewSyscallError("bind", err)
	}
	if err := st.spec.listen(s.fd.Raw()); err != nil {
		return true, err
	}
	st.seats = append(slices.DeleteFunc(st.seats, func(other *seat) bool { return other == s }), s) // as the kernel does
	return true, st.steer()
}

// another returns one more socket on the address, which the caller owns. It is
// in the group from its return on, as the last one. The caller holds mu.
func (st *steered) another() (_ *FD, err error) {
	addr, err := st.endpoint.addrPort()
	if err != nil {
		return nil, err
	}
	s := st.spec
	s.ReusePort = true
	fd, err := s.bind(target{addr, st.endpoint.network == TCP6}, st.log)
	if err != nil {
		return nil, fmt.Errorf("one more socket on %s: %w", st.Addr(), err)
	}
	defer closeOnError(fd, &err)
	if st.foreign() {
		inherit(fd.Raw(), st.seats[0].fd.Raw(), st.log.With("socket", s.FDName()))
	}
	return fd, s.listen(fd.Raw())
}

func (st *steered) Leave(gen int) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return err
	}
	s := st.seatOf(gen)
	if s == nil {
		return nil
	}
	if err := st.turnAway(gen); err != nil {
		return err
	}
	other := st.beside(s)
	if other == nil || other.forwards || st.retires {
		// Nobody else accepts. It stays, and with it what waits there, for the next
		// generation.
		if gen == st.target {
			st.target = 0
		}
		s.gen = 0
		return nil
	}
	if gen == st.target {
		if err := st.turn(other.gen, 0, 0); err != nil {
			return err
		}
	}
	if s.foreign {
		s.passOn(st.forwarder, st.endpoint)
		s.gen = 0
		return nil
	}
	return st.remove(s)
}

// beside returns the other seat, or nil. The caller holds mu.
func (st *steered) beside(s *seat) *seat {
	for _, other := range st.seats {
		if other != s {
			return other
		}
	}
	return nil
}

// remove takes a seat out of the group that connections do not go to. What waits
// there goes to the generation that they do go to. The caller holds mu.
func (st *steered) remove(s *seat) error {
	if own, err := st.endpoint.stats(s.fd.Raw()); err == nil {
		st.dropped = sum(st.dropped, own.Dropped)
	}
	lost := s.leave(st.forwarder, st.endpoint)
	if lost > 0 {
		st.forwarder.lost.Add(int64(lost))
		st.log.Warn("connections were reset that nobody would accept", "socket", st.spec.FDName(), "generation", s.gen, "connections", lost)
	}
	i := slices.Index(st.seats, s)
	last := len(st.seats) - 1
	st.seats[i] = st.seats[last] // as the kernel does
	st.seats = st.seats[:last]
	// Until here a place beyond the group's end meant the one that is left.
	return st.steer()
}

func (st *steered) Forward(gen int) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return err
	}
	s := st.seatOf(gen)
	// Of a socket that never leaves the accepting could not be ended: Leave passes
	// on what waits there.
	if s == nil || gen == st.target || s.foreign || st.retires {
		return nil
	}
	if err := st.turnAway(gen); err != nil {
		return err
	}
	s.forward(st.forwarder)
	return nil
}

func (st *steered) Pending(gen int, c *Census, limit time.Duration) Unsettled {
	st.mu.Lock()
	defer st.mu.Unlock()
	s := st.seatOf(gen)
	if st.closed || s == nil || gen == st.target {
		return Unsettled{}
	}
	at, err := st.endpoint.reach()
	if err != nil {
		return Unsettled{}
	}
	return s.pending(c, at, limit)
}
