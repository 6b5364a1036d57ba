package fdpass

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/redirect"
)

// ported is a Socket of a service that is told a port: each generation listens on
// a private one, and the firewall redirects new connections to the public port
// there. See docs/port.md.
//
// On the public port itself the supervisor listens, in the holder: connections wait
// there while no generation gets any, and are passed on once one does. That is also
// where they go if somebody empties the firewall.
type ported struct {
	endpoint  endpoint // of the holder
	log       *slog.Logger
	table     redirect.Table
	forwarder *forwarder
	to        atomic.Uint32 // the port that connections go to; for the forwarder

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

	dropped  int    // what the lanes that are gone have dropped
	repaired int    // how many times the table was made again
	left     bool   // the table is another supervisor's now
	found    string // what was wrong with the table when it was last looked at
}

// A lane is a private port and the generation that has it. Its seat has no
// descriptors until they were found, or where they cannot be had.
type lane struct {
	*seat
	port uint16
	met  bool // its sockets were looked for
}

// tableName returns the name of the firewall's table for a public port.
func tableName(service string, port uint16) string {
	return TablePrefix(service) + strconv.Itoa(int(port))
}

// TablePrefix returns what the names of the firewall's tables of a service begin
// with; a port follows.
func TablePrefix(service string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}, service)
	return "zddsupervisor-" + plain + "-"
}

// RemoveTables removes the tables of a service from the firewall: for when nothing
// of it is left. Without any, or without the right to look, it does nothing.
func RemoveTables(service string) error {
	names, err := redirect.Tables(TablePrefix(service))
	if err != nil {
		return nil // where they may not be looked at, none was made
	}
	var errs []error
	for _, name := range names {
		if port := strings.TrimPrefix(name, TablePrefix(service)); isNumber(port) { // else it is that of svc-x, for svc
			errs = append(errs, redirect.Table{Name: name}.Remove())
		}
	}
	return errors.Join(errs...)
}

// openPorted opens the socket of a spec with PassPort anew.
func openPorted(s Spec, service string, log *slog.Logger) (_ *ported, err error) {
	ports, err := s.privatePorts()
	if err != nil {
		return nil, err
	}
	for _, port := range ports {
		if err := portFree(port); err != nil {
			return nil, err
		}
	}
	reportEphemeral(s, ports, log)
	holder, e, err := openHolder(s, log)
	if err != nil {
		return nil, err
	}
	defer closeOnError(holder, &err)
	p, err := newPorted(s, holder, e, service, log)
	if err != nil {
		return nil, err
	}
	route, err := p.table.Read()
	switch {
	case errors.Is(err, redirect.ErrMissing):
	case err != nil:
		return nil, err
	case route != redirect.Route{}:
		log.Info("found the firewall's table of a supervisor that is gone", "socket", s.FDName(), "table", p.table.Name, "port", route.To)
	}
	return p, p.table.Set(redirect.Route{})
}

// openHolder returns a socket that listens on the public port, which the caller
// owns.
func openHolder(s Spec, log *slog.Logger) (_ *FD, e endpoint, err error) {
	s.NonBlocking = true
	fd, err := s.bindInet(log)
	if err != nil {
		return nil, e, err
	}
	defer closeOnError(fd, &err)
	if err := s.listen(fd.Raw()); err != nil {
		return nil, e, err
	}
	e, err = inspect(fd.Raw())
	return fd, e, err
}

// newPorted takes holder, which listens on the public port.
func newPorted(s Spec, holder *FD, e endpoint, service string, log *slog.Logger) (*ported, error) {
	ports, err := s.privatePorts()
	if err != nil {
		return nil, err
	}
	public, err := e.addrPort()
	if err != nil {
		return nil, err
	}
	p := &ported{
		endpoint: e, log: log.With("socket", s.FDName()), spec: s, holder: holder, ended: make(chan struct{}),
		forwarder: newForwarder(log.With("socket", s.FDName())),
		table: redirect.Table{
			Name: tableName(service, public.Port()), Public: redirect.Public{Addr: public, V6Only: e.network == TCP6}, Private: ports,
		},
	}
	p.forwarder.address = p.redirected
	return p, nil
}

// redirected returns where a connection to a local address is to go, which came to
// the public port or to a private one.
func (p *ported) redirected(local net.Addr) string {
	at, err := netip.ParseAddrPort(local.String())
	to := p.to.Load()
	if err != nil || to == 0 {
		return local.String()
	}
	return netip.AddrPortFrom(at.Addr(), uint16(to)).String()
}

// A portError says that a private port cannot be had.
type portError struct {
	port   uint16
	reason string
}

func (e *portError) Error() string {
	return fmt.Sprintf("the private port %d %s", e.port, e.reason)
}

// portFree returns an error if a process listens on a port, or it cannot be bound.
func portFree(port uint16) error {
	taken, err := listenersOn(port)
	if err == nil && len(taken) > 0 {
		return &portError{port, fmt.Sprintf("is taken already, by a process of uid %d (ss -lntp 'sport = :%d' names it): end that, or choose other ports", taken[0].uid, port)}
	}
	return nil // without inet_diag the service will see
}

// reportEphemeral tells the log of private ports that the kernel may give away.
func reportEphemeral(s Spec, ports []uint16, log *slog.Logger) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	var low, high int
	if err != nil {
		return
	}
	if _, err := fmt.Sscan(string(text), &low, &high); err != nil {
		return
	}
	for _, port := range ports {
		if int(port) >= low && int(port) <= high {
			log.Warn("a private port is one that the kernel gives to outgoing connections: it may be taken when it is needed; choose ports below, or reserve it",
				"socket", s.FDName(), "port", port, "range", fmt.Sprintf("%d-%d", low, high), "sysctl", "net.ipv4.ip_local_reserved_ports")
			return
		}
	}
}

func (p *ported) Addr() string { return p.endpoint.addr() }

func (p *ported) Mode() Mode { return Steered }

// open returns os.ErrClosed once the socket is closed. The caller holds mu.
func (p *ported) open() error {
	if p.closed {
		return os.ErrClosed
	}
	return nil
}

// laneOf returns the lane of a generation, or nil. The caller holds mu.
func (p *ported) laneOf(gen int) *lane {
	for _, l := range p.lanes {
		if gen != 0 && l.gen == gen {
			return l
		}
	}
	return nil
}

// reach returns what comes to a lane.
func (p *ported) reach(l *lane) (at reach) {
	at, _ = p.endpoint.reach() // it was read once already
	at.addr = netip.AddrPortFrom(at.addr.Addr(), l.port)
	return at
}

// reaches returns what comes to the generations.
func (p *ported) reaches() (all []reach) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanes {
		all = append(all, p.reach(l))
	}
	return all
}

func (p *ported) Stats() (Stats, error) {
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

func (p *ported) Seats() ([]Seat, error) {
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

func (p *ported) Reconfigure(s Spec) error {
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

func (p *ported) cookie() (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return 0, err
	}
	return cookie(p.holder.Raw())
}

func (p *ported) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	// Where a generation has a lane it may have connections, which would break off
	// with the table: the last one to leave removes that.
	var err error
	if p.inUse() {
		err = p.table.Set(redirect.Route{})
	} else {
		err = p.table.Remove()
	}
	p.mu.Unlock()
	return errors.Join(err, p.letGo())
}

// inUse reports whether a generation has a lane. The caller holds mu.
func (p *ported) inUse() bool {
	return slices.ContainsFunc(p.lanes, func(l *lane) bool { return l.gen != 0 })
}

// letGo closes our descriptors, once nobody uses them: closed is set.
func (p *ported) letGo() error {
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
