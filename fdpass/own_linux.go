package fdpass

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// own is a Socket of a service that opens its sockets itself, and so a SelfBound.
// How connections get to them is its way: see docs/port.md and docs/reuseport.md.
//
// On the address itself the supervisor listens, in the holder: connections wait
// there while no generation gets any, and are passed on once one does.
type own struct {
	endpoint  endpoint // of the holder
	log       *slog.Logger
	way       way
	forwarder *forwarder
	to        atomic.Uint32 // the port that connections go to, 0 for the holder's; for the forwarder

	passing sync.WaitGroup // goroutines that empty the holder
	ended   chan struct{}  // closed by Close

	mu     sync.Mutex
	spec   Spec
	closed bool
	holder *FD // owned; listens, O_NONBLOCK, nobody else has it
	lanes  []*lane
	target *lane // where connections go; nil for the holder
	canary *lane // where a share of them goes; nil for none
	share  float64

	dropped  int  // what the lanes that are gone have dropped
	repaired int  // how many times the way was put right
	left     bool // another supervisor goes on
}

// A way is how new connections get to the sockets of the generations. Its methods,
// but for end and dial, are for whoever holds the mutex of the own that it is given.
type way interface {
	// set has new connections go where target, canary and share say, from one packet
	// to the next.
	set(p *own) error
	// verify returns an error if they do not go there.
	verify(p *own) error
	// repair puts right what somebody has removed, and reports whether that had to be.
	repair(p *own) (bool, error)
	// port returns where a generation that joins is to listen. The error wraps errFull
	// where a lane has to be given up first.
	port(p *own) (uint16, error)
	// joined is called when the sockets of a lane were found, which is the last.
	joined(p *own, l *lane) error
	// leaving is called before the sockets of a lane without a share are closed, and
	// left after that, and where a process has shut them down.
	leaving(p *own) error
	left(p *own, l *lane) error
	// end is called when the socket is closed: inUse says that generations have
	// connections still. It is called again once they have not.
	end(inUse bool) error
	// inOrder returns the descriptors that there are, which are borrowed, in the order
	// that the way's resume wants to know.
	inOrder(p *own) []*FD
	// resume takes over from another supervisor.
	resume(p *own) error
	// dial connects to a lane and to nobody else.
	dial(ctx context.Context, p *own, l *lane) (net.Conn, error)
}

// errFull says that no more lanes can be had.
var errFull = errors.New("all of its places are taken")

// A lane is where a generation listens: a port, and its sockets there. Its seat
// has no descriptors until they were found, or where they cannot be had.
type lane struct {
	*seat
	port uint16
	met  bool // its sockets were looked for
}

// newOwn takes holder, which listens on the address.
func newOwn(s Spec, holder *FD, e endpoint, w way, log *slog.Logger) *own {
	p := &own{
		endpoint: e, log: log.With("socket", s.FDName()), way: w, spec: s, holder: holder, ended: make(chan struct{}),
		forwarder: newForwarder(log.With("socket", s.FDName())),
	}
	p.forwarder.address = p.redirected
	return p
}

// redirected returns where a connection to a local address is to go, which came to
// the public port or to a private one.
func (p *own) redirected(local net.Addr) string {
	at, err := netip.ParseAddrPort(local.String())
	to := p.to.Load()
	if err != nil {
		return local.String()
	}
	if to == 0 { // the holder's
		to = uint32(p.publicPort())
	}
	return netip.AddrPortFrom(at.Addr(), uint16(to)).String()
}

// publicPort returns the port of the address; 0 if that was not read.
func (p *own) publicPort() uint16 {
	at, _ := p.endpoint.addrPort()
	return at.Port()
}

func (p *own) Addr() string { return p.endpoint.addr() }

func (p *own) Mode() Mode { return Steered }

// open returns os.ErrClosed once the socket is closed. The caller holds mu.
func (p *own) open() error {
	if p.closed {
		return os.ErrClosed
	}
	return nil
}

// laneOf returns the lane of a generation, or nil. The caller holds mu.
func (p *own) laneOf(gen int) *lane {
	for _, l := range p.lanes {
		if gen != 0 && l.gen == gen {
			return l
		}
	}
	return nil
}

// reach returns what comes to a lane.
func (p *own) reach(l *lane) (at reach) {
	at, _ = p.endpoint.reach() // it was read once already
	at.addr = netip.AddrPortFrom(at.addr.Addr(), l.port)
	return at
}

// reaches returns what comes to the generations.
func (p *own) reaches() (all []reach) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanes {
		all = append(all, p.reach(l))
	}
	return all
}

func (p *own) Stats() (Stats, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return Stats{}, err
	}
	total, err := p.endpoint.stats(p.holder.Raw())
	if err != nil {
		return Stats{}, err
	}
	for _, l := range p.lanes {
		for _, fd := range l.fds() {
			own, err := p.endpoint.stats(fd.Raw())
			if err != nil {
				continue // its generation has it no more, or it was not found
			}
			total.Queue, total.Dropped = sum(total.Queue, own.Queue), sum(total.Dropped, own.Dropped)
			if l == p.target {
				total.QueueLimit, total.ShutDown = own.QueueLimit, own.ShutDown
			}
		}
	}
	if total.Dropped != Unknown {
		total.Dropped += p.dropped
	}
	total.Forwarded, total.Lost, total.Repaired = int(p.forwarder.done.Load()), int(p.forwarder.lost.Load()), p.repaired
	return total, nil
}

func (p *own) Seats() ([]Seat, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return nil, err
	}
	var seats []Seat
	for _, l := range p.lanes {
		seats = append(seats, Seat{Generation: l.gen, Share: p.shareOf(l), Queue: l.queue()})
	}
	return seats, nil
}

func (p *own) Reconfigure(s Spec) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return err
	}
	if err := changeable(p.spec, s); err != nil {
		return err
	}
	if s.Backlog != p.spec.Backlog {
		if err := s.listen(p.holder.Raw()); err != nil {
			return err
		}
	}
	p.spec = s
	return nil
}

func (p *own) cookie() (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return 0, err
	}
	return cookie(p.holder.Raw())
}

func (p *own) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	err := p.way.end(p.inUse())
	p.mu.Unlock()
	return errors.Join(err, p.letGo())
}

// inUse reports whether a generation has a lane. The caller holds mu.
func (p *own) inUse() bool {
	return slices.ContainsFunc(p.lanes, func(l *lane) bool { return l.gen != 0 })
}

// letGo closes our descriptors, once nobody uses them: closed is set.
func (p *own) letGo() error {
	close(p.ended)
	p.passing.Wait()
	errs := []error{p.holder.Close()}
	for _, l := range p.lanes {
		errs = append(errs, l.close())
	}
	p.forwarder.close()
	return errors.Join(errs...)
}

// acceptWaiting gives what waits in the listening socket raw, which is borrowed
// and has O_NONBLOCK, to take, and returns how many that was.
func acceptWaiting(raw int, take func(*FD)) (n int) {
	for {
		conn, _, err := unix.Accept4(raw, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch {
		case err == nil:
			n++
			take(NewFD(conn))
		case err == unix.EINTR, err == unix.ECONNABORTED:
		default:
			return n
		}
	}
}
