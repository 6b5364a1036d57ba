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
// gets connections. The holder is the first of it and never leaves, and those of
// the lanes follow in their order, as many as each has.
//
// A holder that was lost with its supervisor is opened again, and is the second then:
// after the one socket of the generation that serves. It stays that while there is a
// lane before it, since who leaves is replaced by the last.
type group struct {
	dialing []*probeConn
	second  bool // the holder is
}

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
	return newOwn(s, fd, e, &group{}, log), nil
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

// joinAgain opens a holder beside the socket of a lane, which is the only one of its
// group. The caller owns it.
func joinAgain(s Spec, l *lane) (_ *FD, e endpoint, err error) {
	if err := (steering{}).attach(l.fd.Raw()); err != nil {
		return nil, e, err
	}
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

// places returns the first place of a lane in the group, and how many it has. A
// lane without sockets, and nil, have the holder's.
func (g *group) places(p *own, l *lane) (first, n int) {
	second := g.second && len(p.lanes) > 0
	switch {
	case (l == nil || l.fd.Raw() < 0) && second:
		return 1, 1
	case l == nil || l.fd.Raw() < 0:
		return 0, 1
	case second && l == p.lanes[0]:
		return 0, 1
	}
	first = 1
	for _, before := range p.lanes {
		if before == l {
			break
		}
		first += before.sockets()
	}
	return first, l.sockets()
}

// sockets returns how many there are.
func (l *lane) sockets() int {
	if l.fd.Raw() < 0 {
		return 0
	}
	return 1 + len(l.more)
}

func (g *group) set(p *own) error {
	var s steering
	s.to, s.among = g.places(p, p.target)
	if p.canary != nil {
		s.canary, s.canaryAmong = g.places(p, p.canary)
		s.share = p.share
	}
	for _, c := range g.dialing {
		if l := p.laneOf(c.gen); l != nil {
			place, _ := g.places(p, l)
			s.probes = append(s.probes, probe{c.from, c.to, place})
		}
	}
	return s.attach(p.holder.Raw())
}

func (g *group) verify(*own) error { return nil }

func (g *group) repair(*own) (bool, error) { return false, nil }

func (g *group) port(p *own) (uint16, error) {
	if len(p.lanes) > MaxSeats { // one more than that may be one that was forsaken
		return 0, errFull
	}
	if len(p.lanes) > 0 && !p.lanes[len(p.lanes)-1].met {
		return 0, fmt.Errorf("what generation %d has opened on %s is not known", p.lanes[len(p.lanes)-1].gen, p.Addr())
	}
	at, err := p.endpoint.addrPort()
	return at.Port(), err
}

// joined takes the sockets of a forsaken lane out of the group, and the new ones, which
// are the last and get nothing yet, take their places: all others stay where they are,
// so that no connection finds a place that is not what the program means. Where the
// numbers differ it is left for when its place is needed.
func (g *group) joined(p *own, l *lane) error {
	i := slices.IndexFunc(p.lanes, func(old *lane) bool { return old.gen == 0 && old.forwards && old != p.target && old != p.canary })
	last := len(p.lanes) - 1
	if i < 0 || p.lanes[last] != l || l.sockets() != p.lanes[i].sockets() || l == p.target || l == p.canary {
		return g.set(p)
	}
	forsaken := p.lanes[i]
	p.countDropped(forsaken)
	forsaken.shutdown()
	p.lanes[i] = l
	p.lanes = p.lanes[:last]
	return errors.Join(g.set(p), forsaken.close())
}

// leaving lets connections wait in the holder while places change: where one
// leaves, the last takes its place, and which that is of several is not known.
func (g *group) leaving(p *own) error {
	place, _ := g.places(p, nil)
	return steering{to: place}.attach(p.holder.Raw())
}

func (g *group) left(p *own) error {
	g.second = g.second && len(p.lanes) > 0 && p.lanes[0].sockets() > 0
	err := g.set(p)
	if p.target != nil {
		p.emptyHolder()
	}
	return err
}

func (g *group) end(bool) error { return nil }

func (g *group) resume(p *own) error { return p.turn(p.target, nil, 0) }

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
