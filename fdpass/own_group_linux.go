package fdpass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// group is the way of a service that listens on the address itself, with
// SO_REUSEPORT: its sockets join the holder's group, in which the program says who
// gets connections.
//
// The program knows sockets by their places, which the kernel does not tell: they are
// counted here. Whoever joins is the last, and the last takes the place of one that
// leaves. Which of a lane's sockets has which of its places is not known, and does not
// matter as long as those that move are of one lane.
type group struct {
	order   []*lane // whose the sockets are; nil is the holder
	dialing []*probeConn
}

// newGroup returns the way of a socket whose holder is the first of its group.
func newGroup() *group { return &group{order: []*lane{nil}} }

// openByReusePort opens the socket of a spec with PassReusePort anew. owner is the
// user of the service: the kernel lets nobody else's sockets into the group.
func openByReusePort(s Spec, owner int, log *slog.Logger) (_ *own, err error) {
	fd, e, err := openGroup(s, owner, log)
	if err != nil {
		return nil, err
	}
	defer closeOnError(fd, &err)
	if err := (steering{}).attach(fd.Raw()); err != nil {
		return nil, err
	}
	return newOwn(s, fd, e, newGroup(), log), nil
}

// openGroup returns a socket that listens on the address and is the first of its
// group, which the caller owns.
func openGroup(s Spec, owner int, log *slog.Logger) (_ *FD, e endpoint, err error) {
	// Bound without SO_REUSEPORT at first, so that the address is free of others.
	first, err := s.bindInet(log)
	if err != nil {
		return nil, e, err
	}
	at, err := unix.Getsockname(first.Raw())
	if closeErr := first.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, e, os.NewSyscallError("getsockname", err)
	}
	addr, err := netip.ParseAddrPort(addressOf(at))
	if err != nil {
		return nil, e, err
	}
	return joinGroup(s, target{addr, s.v6only()}, owner)
}

// joinGroup returns a socket of a user that listens on an address with SO_REUSEPORT,
// which the caller owns. New connections do not go to it unless it is alone.
func joinGroup(s Spec, t target, owner int) (_ *FD, e endpoint, err error) {
	s.NonBlocking = true
	sa, family, err := t.sockaddr()
	if err != nil {
		return nil, e, err
	}
	s.ReusePort = true
	fd, err := s.newSocket(family)
	if err != nil {
		return nil, e, err
	}
	defer closeOnError(fd, &err)
	if owner != 0 && owner != os.Geteuid() {
		if err := unix.Fchown(fd.Raw(), owner, -1); err != nil { // whose it is, the kernel asks for each that joins
			return nil, e, fmt.Errorf("give the socket to the user %d of the service: %w", owner, os.NewSyscallError("fchown", err))
		}
	}
	if err := s.setOptions(fd.Raw(), t); err != nil {
		return nil, e, err
	}
	if err := unix.Bind(fd.Raw(), sa); err != nil {
		return nil, e, os.NewSyscallError("bind", err)
	}
	if err := s.listen(fd.Raw()); err != nil {
		return nil, e, err
	}
	e, err = inspect(fd.Raw())
	return fd, e, err
}

// joinAgain opens a holder beside the sockets of a lane. The caller owns it.
func joinAgain(s Spec, l *lane) (_ *FD, e endpoint, err error) {
	if e, err = inspect(l.fd.Raw()); err != nil {
		return nil, e, err
	}
	addr, err := e.addrPort()
	if err != nil {
		return nil, e, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(l.fd.Raw(), &st); err != nil {
		return nil, e, os.NewSyscallError("fstat", err)
	}
	return joinGroup(s, target{addr, e.network == TCP6}, int(st.Uid))
}

// places returns the places that a lane has in the group. A lane without sockets there
// has the holder's.
func (g *group) places(l *lane) (all []int) {
	if !slices.Contains(g.order, l) {
		l = nil
	}
	for place, of := range g.order {
		if of == l {
			all = append(all, place)
		}
	}
	return all
}

// gone notes that the sockets of a lane are not in the group any more. The last ones
// are in their places now. It reports whether the places of the others are known: if
// several left, those that moved have to be of one lane.
func (g *group) gone(l *lane) (known bool) {
	moved := slices.Clone(g.order[len(g.order)-countOf(g.order, l):])
	moved = slices.DeleteFunc(moved, func(of *lane) bool { return of == l })
	for place := slices.Index(g.order, l); place >= 0; place = slices.Index(g.order, l) {
		last := len(g.order) - 1
		g.order[place] = g.order[last]
		g.order = g.order[:last]
	}
	return len(slices.Compact(moved)) <= 1
}

// sockets returns how many there are.
func (l *lane) sockets() int {
	if l.fd.Raw() < 0 {
		return 0
	}
	return 1 + len(l.more)
}

func (g *group) set(p *own) error {
	s := steering{to: g.places(p.target)}
	if p.canary != nil {
		s.canary, s.share = g.places(p.canary), p.share
	}
	for _, c := range g.dialing {
		if l := p.laneOf(c.gen); l != nil {
			s.probes = append(s.probes, probe{c.from, c.to, g.places(l)[0]})
		}
	}
	return s.attach(p.holder.Raw())
}

func (g *group) verify(*own) error { return nil }

func (g *group) repair(*own) (bool, error) { return false, nil }

func (g *group) port(p *own) (uint16, error) {
	// Sockets that are not counted may be the last, and nobody may leave before them.
	if n := len(p.lanes); n > 0 && !p.lanes[n-1].met {
		return 0, fmt.Errorf("generation %d, which did not get ready, may still listen on %s: try again when it has ended", p.lanes[n-1].gen, p.Addr())
	}
	if len(p.lanes) > MaxSeats { // one more than that may be one that was forsaken
		return 0, errFull
	}
	at, err := p.endpoint.addrPort()
	return at.Port(), err
}

// joined has the new sockets, which are the last and get nothing yet, take the places of
// those of a forsaken lane, which leave: all others stay where they are, so that no
// connection finds a place that is not what the program means. Where the numbers differ
// that is left for when their places are needed.
func (g *group) joined(p *own, l *lane) error {
	for range l.sockets() - countOf(g.order, l) {
		g.order = append(g.order, l)
	}
	i := slices.IndexFunc(p.lanes, func(old *lane) bool { return old.gen == 0 && old.forwards && old != p.target && old != p.canary })
	if i < 0 || p.lanes[len(p.lanes)-1] != l || l.sockets() != countOf(g.order, p.lanes[i]) || l == p.target || l == p.canary {
		return g.set(p)
	}
	forsaken := p.lanes[i]
	p.countDropped(forsaken)
	forsaken.shutdown()
	p.lanes = slices.Delete(p.lanes, i, i+1)
	g.gone(forsaken) // those that move are all the new one's
	return errors.Join(g.set(p), forsaken.close())
}

func countOf(order []*lane, l *lane) (n int) {
	for _, of := range order {
		if of == l {
			n++
		}
	}
	return n
}

// leaving lets connections wait in the holder while places change.
func (g *group) leaving(p *own) error {
	return steering{to: g.places(nil)}.attach(p.holder.Raw())
}

// left takes all sockets away that connections do not go to where the places of the
// others are not known, so that they are.
func (g *group) left(p *own, l *lane) error {
	var errs []error
	if slices.Contains(g.order, l) && !l.allDeaf() { // the others go, too: a lane has all of its places, or none
		errs = append(errs, g.leaving(p))
		l.passOn(p.forwarder, p.endpointOf(l))
		l.shutdown()
	}
	if !g.gone(l) {
		for _, other := range slices.Clone(p.lanes) {
			if other != p.target && other != p.canary && slices.Contains(g.order, other) {
				errs = append(errs, p.remove(other))
			}
		}
	}
	errs = append(errs, g.set(p))
	if p.target != nil {
		p.emptyHolder()
	}
	return errors.Join(errs...)
}

func (g *group) end(bool) error { return nil }

func (g *group) inOrder(p *own) (fds []*FD) {
	left := p.parts()
	for _, l := range g.order {
		of := []*FD{p.holder}
		if l != nil {
			of = l.fds()
		}
		i := slices.IndexFunc(left, func(fd *FD) bool { return slices.Contains(of, fd) })
		fds = append(fds, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return append(fds, left...) // those that were shut down
}

func (g *group) resume(p *own) error {
	for _, l := range p.lanes {
		if l.deaf() {
			g.gone(l) // they are the last
		}
	}
	return p.turn(p.target, nil, 0)
}

// dial opens a connection that the program sends to the lane's first socket.
func (g *group) dial(ctx context.Context, p *own, l *lane) (net.Conn, error) {
	p.mu.Lock()
	met := l.met && l.fd.Raw() >= 0
	p.mu.Unlock()
	if !met {
		return nil, fmt.Errorf("generation %d does not listen on %s yet", l.gen, p.Addr())
	}
	ip, err := p.host()
	if err != nil {
		return nil, err
	}
	at, err := p.endpoint.addrPort()
	if err != nil {
		return nil, err
	}
	pc := &probeConn{gen: l.gen, to: netip.AddrPortFrom(ip, at.Port())}
	pc.release = func() { g.undial(p, pc) }
	d := dialer()
	d.Control = func(_, _ string, c syscall.RawConn) (err error) {
		controlErr := c.Control(func(fd uintptr) { err = g.prepare(p, pc, int(fd)) })
		return cmp.Or(controlErr, err)
	}
	pc.Conn, err = d.DialContext(ctx, "tcp", pc.to.String())
	if err != nil {
		pc.once.Do(pc.release)
	}
	if pc.port != nil {
		_ = pc.port.Close() // a duplicate
	}
	if err != nil {
		return nil, err
	}
	return pc, nil
}

// prepare has the program know the connection that the socket raw, which is
// borrowed, will be.
func (g *group) prepare(p *own, pc *probeConn, raw int) error {
	if err := pc.bind(raw); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return err
	}
	if !slices.Contains(g.dialing, pc) { // it is, where the dialer has to take another port
		if len(g.dialing) == maxProbes {
			return fmt.Errorf("%d connections to single generations are open on %s already", maxProbes, p.Addr())
		}
		g.dialing = append(g.dialing, pc)
	}
	return g.set(p)
}

// undial has the program forget a connection.
func (g *group) undial(p *own, pc *probeConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.dialing = slices.DeleteFunc(g.dialing, func(other *probeConn) bool { return other == pc })
	if !p.closed {
		_ = g.set(p) // the same program without an entry that nothing matches any more
	}
}
