package fdpass

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// MaxSeats is how many seats a steered socket has: kernel sockets of one address
// in a group. With two, whichever leaves, the kernel's rule that the last one
// takes the place of the one that left moves nothing that the program did not
// mean.
const MaxSeats = 2

// steered is a Socket in steered mode: a kernel socket for each generation, all
// on one address and in one SO_REUSEPORT group, with a program on the group.
type steered struct {
	endpoint  endpoint
	log       *slog.Logger
	forwarder *forwarder

	mu       sync.Mutex
	spec     Spec // as it is in force, with all that one more socket has to have
	asked    Spec // as the configuration has it
	closed   bool
	seats    []*seat // in the order in which the kernel has them
	target   int     // the generation that connections go to; 0 while none has a seat
	canary   int     // the generation that gets a share of them; 0 for none
	share    float64
	dialing  []*probeConn
	repaired int  // how many times Revive had something to do
	dropped  int  // what the seats that are gone have dropped
	retires  bool // connections cannot be passed on any more
	sink     *FD  // owned; takes the SYNs while the socket retires, or nil
}

// found makes the bound socket raw, which is borrowed and does not listen yet,
// the first of a group. It was bound without SO_REUSEPORT, so that the address
// was free: whoever joins later has to be of the same user.
func found(raw int) error {
	if err := reusePort.set(raw); err != nil {
		return err
	}
	err := steering{}.attach(raw)
	if err != nil { // then the address is to be its own
		_ = unix.SetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_REUSEPORT, 0)
	}
	return err
}

// reusePort lets a socket join a group.
var reusePort = sockopt{"reuseport", "SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, 1}

// newSteered takes fd, which listens and is the only one of its group.
func newSteered(s Spec, fd *FD, e endpoint, log *slog.Logger) *steered {
	return &steered{
		endpoint: e, log: log, spec: s, asked: s, forwarder: newForwarder(log.With("socket", s.FDName())),
		seats: []*seat{{fd: fd}},
	}
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

func (st *steered) Stats() (Stats, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return Stats{}, err
	}
	total := Stats{Queue: Unknown, QueueLimit: Unknown, Dropped: Unknown, Forwarded: int(st.forwarder.done.Load()), Lost: int(st.forwarder.lost.Load()), Repaired: st.repaired}
	if st.sink != nil {
		sunk, err := st.endpoint.stats(st.sink.Raw())
		if err != nil {
			return Stats{}, err
		}
		total.Dropped = sunk.Dropped
	}
	for _, s := range st.seats {
		own, err := st.endpoint.stats(s.fd.Raw())
		if err != nil {
			return Stats{}, err
		}
		total.Queue = sum(total.Queue, own.Queue)
		total.Dropped = sum(total.Dropped, own.Dropped)
		if s.gen == st.target {
			total.QueueLimit, total.ShutDown = own.QueueLimit, own.ShutDown
		}
	}
	if total.Dropped != Unknown {
		total.Dropped += st.dropped
	}
	return total, nil
}

// sum adds two numbers of Stats. One that is not known does not count, as that of
// a seat which its generation has shut down.
func sum(a, b int) int {
	if a == Unknown || b == Unknown {
		return max(a, b)
	}
	return a + b
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

func (st *steered) Reconfigure(s Spec) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return err
	}
	if err := changeable(st.asked, s); err != nil {
		return err
	}
	if st.foreign() {
		st.spec.Name, st.asked = s.Name, s
		return nil // its .socket unit decides
	}
	if s.Backlog != st.spec.Backlog {
		for _, seat := range st.seats {
			if _, limit, err := tcpQueue(seat.fd.Raw()); err != nil || limit == Unknown {
				continue // its generation has shut it down, and has no use for another place in the group
			}
			if err := s.listen(seat.fd.Raw()); err != nil {
				return err
			}
		}
		st.endpoint.reportBacklog(s, st.seats[0].fd.Raw(), st.log)
	}
	st.spec, st.asked = s, s
	return nil
}

// foreign reports whether systemd has the first socket. The caller holds mu.
func (st *steered) foreign() bool {
	return slices.ContainsFunc(st.seats, func(s *seat) bool { return s.foreign })
}

func (st *steered) PutBack() error { return nil }

func (st *steered) Close() error {
	err := st.closeSeats()
	st.forwarder.close()
	return err
}

// closeSeats closes our descriptors. Connections that are being relayed go on.
func (st *steered) closeSeats() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.closed {
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
