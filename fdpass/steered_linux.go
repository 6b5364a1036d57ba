package fdpass

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxSeats is how many kernel sockets of one address may be in a group. With
// two, whichever leaves, the kernel's rule that the last one takes the place of
// the one that left moves nothing that the program did not mean.
const maxSeats = 2

// steered is a Socket in steered mode: a kernel socket for each generation, all
// on one address and in one SO_REUSEPORT group, with a program on the group.
type steered struct {
	endpoint  endpoint
	log       *slog.Logger
	forwarder *forwarder

	mu      sync.Mutex
	spec    Spec // as it is in force
	closed  bool
	seats   []*seat // in the order in which the kernel has them
	target  int     // the generation that connections go to; 0 while none has a seat
	canary  int     // the generation that gets a share of them; 0 for none
	share   float64
	dialing []*probeConn
	sink    *FD // owned; takes the SYNs while the socket retires, or nil
}

// found makes the bound socket raw, which is borrowed and does not listen yet,
// the first of a group. It was bound without SO_REUSEPORT, so that the address
// was free: whoever joins later has to be of the same user.
func found(raw int) error {
	if err := reusePort.set(raw); err != nil {
		return err
	}
	return steering{}.attach(raw)
}

// reusePort lets a socket join a group.
var reusePort = sockopt{"reuseport", "SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, 1}

// newSteered takes fd, which listens and is the only one of its group.
func newSteered(s Spec, fd *FD, e endpoint, log *slog.Logger) *steered {
	return &steered{
		endpoint: e, log: log, spec: s, forwarder: &forwarder{log: log.With("socket", s.FDName())},
		seats: []*seat{{fd: fd}},
	}
}

// errPlain is wrapped by reasons not to steer a socket of systemd's that are in
// the nature of its unit.
var errPlain = errors.New("it is a plain socket")

// adoptSteered makes a Socket of a duplicate of fd, which is borrowed, and which
// systemd has made with ReusePort=yes. It never leaves the group, because systemd
// has it too. The error says in words why it cannot be steered.
func adoptSteered(s Spec, fd *FD, log *slog.Logger) (_ *steered, err error) {
	e, err := inspect(fd.Raw())
	switch {
	case err != nil:
		return nil, err
	case !e.tcp():
		return nil, fmt.Errorf("%w: it is not tcp", errPlain)
	}
	on, err := unix.GetsockoptInt(fd.Raw(), unix.SOL_SOCKET, unix.SO_REUSEPORT)
	if err != nil {
		return nil, os.NewSyscallError("getsockopt SO_REUSEPORT", err)
	}
	if on == 0 {
		return nil, fmt.Errorf("%w: its .socket unit does not say ReusePort=yes", errPlain)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd.Raw(), &stat); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if int(stat.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("it belongs to user %d, and only that one's sockets can join it", stat.Uid)
	}
	if err := (steering{}).attach(fd.Raw()); err != nil {
		return nil, err
	}
	own, err := fd.Dup()
	if err != nil {
		return nil, err
	}
	if s, err = likeness(s, own.Raw(), e); err != nil {
		_ = own.Close()
		return nil, err
	}
	st := newSteered(s, own, e, log)
	st.seats[0].foreign = true
	return st, nil
}

func (st *steered) Addr() string { return st.endpoint.addr() }

func (st *steered) Mode() Mode { return Steered }

// open returns os.ErrClosed once the socket is closed. The caller holds mu.
func (st *steered) open() error {
	if st.closed {
		return os.ErrClosed
	}
	return nil
}

// seatOf returns the seat of a generation, or nil. The caller holds mu.
func (st *steered) seatOf(gen int) *seat {
	for _, s := range st.seats {
		if s.gen == gen {
			return s
		}
	}
	return nil
}

// place returns where in the group a generation's seat is; 0 if it has none. The
// caller holds mu.
func (st *steered) place(gen int) int {
	return max(0, slices.IndexFunc(st.seats, func(s *seat) bool { return s.gen == gen }))
}

// steer makes the group do what target, canary and dialing say. The caller holds
// mu.
func (st *steered) steer() error {
	if st.sink != nil {
		return steering{to: len(st.seats)}.attach(st.sink.Raw())
	}
	s := steering{to: st.place(st.target)}
	if st.canary != 0 {
		s.canary, s.share = st.place(st.canary), st.share
	}
	for _, c := range st.dialing {
		if st.seatOf(c.gen) != nil {
			s.probes = append(s.probes, probe{c.from, c.to, st.place(c.gen)})
		}
	}
	return s.attach(st.seats[0].fd.Raw())
}

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
	for _, from := range []int{heirOf, 0} { // the seat of the one before it, or one that nobody has
		s := st.seatOf(from)
		if s == nil {
			continue
		}
		if st.target == from {
			st.target = gen
		}
		s.gen = gen
		return s, nil
	}
	if len(st.seats) == maxSeats {
		if s := st.makeRoom(); s != nil { // not to be had back
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
func (st *steered) makeRoom() *seat {
	i := slices.IndexFunc(st.seats, func(s *seat) bool { return s.gen != st.target })
	s := st.seats[i]
	if s.foreign {
		st.log.Warn("two generations share a socket of systemd's, because the older one still has it", "socket", st.spec.FDName(), "older", s.gen)
		return s
	}
	st.remove(s)
	return nil
}

// another returns one more socket on the address, which the caller owns. It is
// in the group from its return on, as the last one. The caller holds mu.
func (st *steered) another() (_ *FD, err error) {
	addr, err := netip.ParseAddrPort(st.endpoint.address)
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
	return fd, s.listen(fd.Raw())
}

func (st *steered) Cutover(gen int) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return err
	}
	switch s := st.seatOf(gen); {
	case gen == 0 && (s == nil || !s.foreign):
		return nil
	case s == nil:
		return fmt.Errorf("generation %d has no socket on %s", gen, st.Addr())
	case st.target == gen && st.canary == 0:
		return nil
	}
	st.target, st.canary, st.share = gen, 0, 0
	if err := st.steer(); err != nil {
		return err
	}
	for _, s := range st.seats {
		s.turned()
	}
	return nil
}

func (st *steered) Share(gen int, share float64) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return err
	}
	if st.seatOf(gen) == nil {
		return fmt.Errorf("generation %d has no socket on %s", gen, st.Addr())
	}
	st.canary, st.share = gen, share
	return st.steer()
}

func (st *steered) Pending(gen int, c *Census, limit time.Duration) Unsettled {
	st.mu.Lock()
	defer st.mu.Unlock()
	s := st.seatOf(gen)
	if st.closed || s == nil || gen == st.target {
		return Unsettled{}
	}
	at, _ := reachOf(st)
	return s.pending(c, at, limit)
}

func (st *steered) Forward(gen int) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return err
	}
	if s := st.seatOf(gen); s != nil && gen != st.target && !s.foreign {
		s.forward(st.forwarder)
	}
	return nil
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
	if gen == st.canary {
		st.canary, st.share = 0, 0
	}
	if len(st.seats) == 1 || s.foreign {
		// It stays, and with it what waits there, for the next generation.
		s.gen = 0
		if gen != st.target {
			return nil
		}
		st.target = 0
		if other := slices.IndexFunc(st.seats, func(s *seat) bool { return s.gen != 0 }); other >= 0 {
			st.target = st.seats[other].gen
		}
		return st.steer()
	}
	if gen == st.target {
		st.target = st.seats[1-slices.Index(st.seats, s)].gen
		if err := st.steer(); err != nil {
			return err
		}
	}
	return st.remove(s)
}

// remove takes a seat out of the group that connections do not go to. What waits
// there goes to the generation that they do go to. The caller holds mu.
func (st *steered) remove(s *seat) error {
	lost := s.leave(st.forwarder)
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

func (st *steered) Stats() (Stats, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return Stats{}, err
	}
	total := Stats{Forwarded: int(st.forwarder.done.Load()), Lost: int(st.forwarder.lost.Load())}
	if st.sink != nil {
		sunk, err := st.endpoint.stats(st.sink.Raw())
		if err != nil {
			return Stats{}, err
		}
		total.Dropped += sunk.Dropped
	}
	for _, s := range st.seats {
		own, err := st.endpoint.stats(s.fd.Raw())
		if err != nil {
			return Stats{}, err
		}
		total.Queue += own.Queue
		total.Dropped += own.Dropped
		if s.gen == st.target {
			total.QueueLimit = own.QueueLimit
		}
	}
	return total, nil
}

func (st *steered) Seats() ([]Seat, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return nil, err
	}
	var seats []Seat
	for _, s := range st.seats {
		queue, _, err := tcpQueue(s.fd.Raw())
		if err != nil {
			return nil, err
		}
		seats = append(seats, Seat{Generation: s.gen, Share: st.shareOf(s.gen), Queue: queue})
	}
	return seats, nil
}

// shareOf returns which part of new connections goes to a generation. The caller
// holds mu.
func (st *steered) shareOf(gen int) float64 {
	switch {
	case st.canary != 0 && gen == st.canary:
		return st.share
	case gen == st.target:
		return 1 - st.share
	}
	return 0
}

func (st *steered) Reconfigure(s Spec) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return err
	}
	if st.foreign() {
		st.spec.Name = s.Name
		return nil // its .socket unit decides
	}
	if err := changeable(st.spec, s); err != nil {
		return err
	}
	if s.Backlog != st.spec.Backlog {
		for _, seat := range st.seats {
			if err := s.listen(seat.fd.Raw()); err != nil {
				return err
			}
		}
		st.endpoint.reportBacklog(s, st.seats[0].fd.Raw(), st.log)
	}
	st.spec = s
	return nil
}

// foreign reports whether systemd has the first socket. The caller holds mu.
func (st *steered) foreign() bool {
	return slices.ContainsFunc(st.seats, func(s *seat) bool { return s.foreign })
}

func (st *steered) Close() error {
	st.mu.Lock()
	if st.closed {
		st.mu.Unlock()
		return nil
	}
	st.closed = true
	var errs []error
	for _, s := range st.seats {
		errs = append(errs, s.close())
	}
	if st.sink != nil {
		errs = append(errs, st.sink.Close())
	}
	st.mu.Unlock()
	st.forwarder.close()
	return errors.Join(errs...)
}

func (st *steered) cookie() (uint64, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return 0, err
	}
	return cookie(st.seats[0].fd.Raw())
}
