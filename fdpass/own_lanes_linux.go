package fdpass

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Join chooses a place for gen. Where all are taken, that of a generation that
// connections do not go to is taken away as by Leave.
func (p *own) Join(gen, heirOf int) (*FD, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return nil, err
	}
	if p.laneOf(gen) != nil {
		return nil, nil
	}
	if err := p.way.verify(p); err != nil {
		return nil, err
	}
	if left := p.laneOf(heirOf); left != nil {
		if err := p.abandon(left); err != nil {
			return nil, err
		}
	}
	port, err := p.way.port(p)
	for errors.Is(err, errFull) {
		i := slices.IndexFunc(p.lanes, func(l *lane) bool { return l != p.target && l != p.canary })
		if i < 0 {
			return nil, err
		}
		if err := p.remove(p.lanes[i]); err != nil {
			return nil, err
		}
		port, err = p.way.port(p)
	}
	if err != nil {
		return nil, err
	}
	p.lanes = append(p.lanes, &lane{seat: &seat{fd: NewFD(-1), gen: gen}, port: port})
	return nil, nil
}

// abandon makes a lane nobody's, as its generation has ended. Connections go on
// waiting in its queue if we have that too, and else in the holder. The caller
// holds mu.
func (p *own) abandon(l *lane) error {
	if err := p.turnAway(l); err != nil {
		return err
	}
	l.gen = 0
	if l.fd.Raw() >= 0 && !l.deaf() {
		return nil
	}
	if l == p.target {
		if err := p.turn(nil, nil, 0); err != nil {
			return err
		}
	}
	return p.remove(l)
}

// forsake gives up a lane that connections do not go to. If any have, it goes on
// listening, and what comes still is passed on, until its place is needed: a packet
// may have been given its way there long before it arrives. The caller holds mu.
func (p *own) forsake(l *lane) error {
	if !l.reached || l.fd.Raw() < 0 || l.deaf() {
		return p.remove(l)
	}
	l.gen = 0
	l.forward(p.forwarder)
	return nil
}

// countDropped keeps what the sockets of a lane that goes have dropped. The caller
// holds mu.
func (p *own) countDropped(l *lane) {
	for _, fd := range l.fds() {
		if own, err := p.endpoint.stats(fd.Raw()); err == nil {
			p.dropped = sum(p.dropped, own.Dropped)
		}
	}
}

// remove takes a lane away that connections do not go to. What waits there goes to
// the generation that they do go to. The caller holds mu.
func (p *own) remove(l *lane) error {
	p.countDropped(l)
	l.passOn(p.forwarder, p.endpointOf(l))
	if err := p.way.leaving(p); err != nil {
		return err
	}
	lost := l.queue()
	l.shutdown() // also where a process of the generation has them still
	p.lanes = slices.DeleteFunc(p.lanes, func(other *lane) bool { return other == l })
	err := p.way.left(p, l)
	if lost > 0 {
		p.forwarder.lost.Add(int64(lost))
		p.log.Warn("connections were reset that nobody would accept", "generation", l.gen, "port", l.port, "connections", lost)
	}
	return errors.Join(err, l.close())
}

// endpointOf returns where a lane is. The caller holds mu.
func (p *own) endpointOf(l *lane) endpoint {
	at := p.endpoint
	at.address = p.reach(l).addr.String()
	return at
}

func (p *own) Port(gen int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.laneOf(gen); l != nil && l.port != p.spec.port() {
		return int(l.port)
	}
	return 0
}

func (p *own) Listeners(gen int) (inodes []uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return nil, err
	}
	l := p.laneOf(gen)
	if l == nil {
		return nil, fmt.Errorf("generation %d has no place on %s", gen, p.Addr())
	}
	all, err := listenersOn(l.port)
	if err != nil {
		return nil, err
	}
	known, err := p.inodesBut(l)
	all = p.exactly(l, all)
	for _, found := range all {
		if found.inode != 0 && !slices.Contains(known, found.inode) {
			inodes = append(inodes, found.inode)
		}
	}
	return inodes, err
}

// exactly returns those that listen on a lane's very address, if there is one that is
// not the holder: others on the port are none of ours. If there is none, all are
// returned, so that it can be said where the service listens instead. The caller holds
// mu.
func (p *own) exactly(l *lane, all []listener) []listener {
	holder, err := partOf(p.holder.Raw())
	var same []listener
	for _, found := range all {
		if found.addr == p.reach(l).addr && (err != nil || found.inode != holder.Inode) {
			same = append(same, found)
		}
	}
	if l.port != p.spec.port() || len(same) == 0 {
		return all
	}
	return same
}

// inodesBut returns those of the sockets that are known, but for those of a lane.
// The caller holds mu.
func (p *own) inodesBut(l *lane) (inodes []uint64, err error) {
	for _, fd := range p.parts() {
		if slices.Contains(l.fds(), fd) {
			continue
		}
		part, err := partOf(fd.Raw())
		if err != nil {
			return nil, err
		}
		inodes = append(inodes, part.Inode)
	}
	return inodes, nil
}

func (p *own) Met(gen int, listeners []*FD) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.laneOf(gen)
	err := p.open()
	if err == nil && l == nil {
		err = fmt.Errorf("generation %d has no place on %s", gen, p.Addr())
	}
	if err == nil {
		err = p.fits(l, listeners)
	}
	if err != nil {
		for _, fd := range listeners {
			_ = fd.Close()
		}
		return err
	}
	l.met = true
	for _, fd := range listeners {
		if err := p.addTo(l, fd); err != nil {
			return err
		}
	}
	return p.way.joined(p, l)
}

// addTo gives a lane one more socket, which it takes, if it does not have it yet.
func (p *own) addTo(l *lane, fd *FD) error {
	id, err := PartID(fd)
	for _, has := range l.fds() {
		if has.Raw() < 0 || err != nil {
			continue
		}
		var other string
		if other, err = PartID(has); other == id {
			return fd.Close()
		}
	}
	switch {
	case err != nil:
		_ = fd.Close() // the first error is the one that tells
	case l.fd.Raw() < 0:
		l.fd = fd
	default:
		l.more = append(l.more, fd)
	}
	return err
}

// fits returns an error if sockets that share the address with the holder would not
// be in one group with it: connections would go to them by rules of their own. The
// caller holds mu.
func (p *own) fits(l *lane, listeners []*FD) error {
	if l.port != p.spec.port() {
		return p.reached(l, listeners)
	}
	if len(listeners) == 0 {
		return fmt.Errorf("the sockets with which generation %d listens on %s cannot be duplicated, see pidfd_getfd(2), and connections cannot be sent to them: "+
			"as another user than the service's it takes CAP_SYS_PTRACE", l.gen, p.Addr())
	}
	for _, fd := range listeners {
		e, err := inspect(fd.Raw())
		if err != nil {
			return err
		}
		if e.addr() != p.Addr() {
			return fmt.Errorf("generation %d listens on %s, and the socket is %s: to the kernel these are two, and connections would go to the former, unsteered; write listen = %q",
				l.gen, e.addr(), p.Addr(), e.addr())
		}
	}
	return nil
}

// reached returns an error if clients of other machines would not get to sockets on a
// private port, although they get to the public one: redirected connections keep the
// address of the interface that they have come in by. The caller holds mu.
func (p *own) reached(l *lane, listeners []*FD) error {
	public, err := p.endpoint.addrPort()
	if err != nil || !public.Addr().IsUnspecified() || len(listeners) == 0 {
		return err
	}
	var at string
	for _, fd := range listeners {
		e, err := inspect(fd.Raw())
		if err != nil {
			return err
		}
		own, err := e.addrPort()
		if err != nil {
			return err
		}
		if !own.Addr().IsLoopback() {
			return nil
		}
		at = e.addr()
	}
	return fmt.Errorf("generation %d listens on %s, where clients of other machines do not get to, and the socket is %s: have the service listen on all addresses, or write listen = \"tcp://%s\"",
		l.gen, at, p.Addr(), netip.AddrPortFrom(loopback(p.endpoint.network), public.Port()))
}

func (p *own) Pending(gen int, c *Census, limit time.Duration) Unsettled {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.laneOf(gen)
	if p.closed || l == nil || l == p.target {
		return Unsettled{}
	}
	u := l.pending(c, p.reach(l), limit)
	if c != nil && !l.tells() {
		// What waits in a queue shows as connections of nobody.
		for conn := range c.to(p.reach(l)) {
			if conn.inode == 0 && !conn.handshake() {
				u.Queued++
			}
		}
	}
	return u
}

// tells reports whether the queues of all its sockets can be seen: we may have none,
// and MPTCP does not show them.
func (l *lane) tells() bool {
	for _, fd := range l.fds() {
		if queued, _, err := tcpQueue(fd.Raw()); err != nil || queued == Unknown {
			return false
		}
	}
	return true
}

func (p *own) Forward(gen int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return err
	}
	l := p.laneOf(gen)
	if l == nil || l == p.target || l.fd.Raw() < 0 {
		return nil
	}
	if err := p.turnAway(l); err != nil {
		return err
	}
	l.forward(p.forwarder)
	return nil
}

// Leave also works after Close: the last one ends what is left outside.
func (p *own) Leave(gen int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.laneOf(gen)
	if l == nil {
		return p.open()
	}
	if p.closed {
		l.gen = 0
		if p.inUse() || p.left {
			return nil
		}
		return p.way.end(false)
	}
	if err := p.turnAway(l); err != nil {
		return err
	}
	if l == p.target {
		i := slices.IndexFunc(p.lanes, func(other *lane) bool { return other != l && other.gen != 0 && !other.forwards && other.met })
		if i < 0 {
			return p.abandon(l)
		}
		if err := p.turn(p.lanes[i], nil, 0); err != nil {
			return err
		}
	}
	return p.forsake(l)
}

func (p *own) Retire(ctx context.Context) error {
	p.mu.Lock()
	err := p.open()
	if err == nil {
		if err := dropSYN(p.holder.Raw()); err != nil {
			reportTaking(p.spec, err, p.log)
		}
		to := p.to.Load()
		err = p.turn(nil, nil, 0)
		p.to.Store(to) // where what waits in the holder goes still
		p.emptyHolder()
	}
	name := p.spec.FDName()
	p.mu.Unlock()
	if err != nil {
		return err
	}
	p.passing.Wait()
	return emptyAndClose(ctx, p, name, p.busy)
}

// busy reports whether anything waits for a generation or is about to.
func (p *own) busy() (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return false, err
	}
	for _, l := range p.lanes {
		for _, fd := range l.fds() {
			if fd.Raw() < 0 {
				continue
			}
			if busy, err := p.endpoint.busy(fd.Raw()); busy || err != nil {
				return busy, err
			}
		}
	}
	return false, nil
}

func (p *own) Release() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed, p.left = true, true
	p.mu.Unlock()
	close(p.ended)
	p.passing.Wait()
	errs := []error{p.holder.Close()}
	for _, l := range p.lanes {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}

func (p *own) Relays(ctx context.Context) { p.forwarder.wait(ctx) }

func (p *own) EachPart(do func(id string, fd *FD) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return err
	}
	for _, fd := range p.parts() {
		if err := eachPart(fd, do); err != nil {
			return err
		}
	}
	return nil
}

// parts returns the descriptors that there are, the holder's first. The caller
// holds mu.
func (p *own) parts() []*FD {
	fds := []*FD{p.holder}
	for _, l := range p.lanes {
		fds = append(fds, l.fds()...)
	}
	return slices.DeleteFunc(fds, func(fd *FD) bool { return fd.Raw() < 0 })
}

func (p *own) Snapshot() (Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{Spec: p.spec, Mode: Steered}
	if f, ok := p.way.(*firewall); ok {
		s.Table = f.table.Name
	}
	if p.target != nil {
		s.Target = p.target.gen
	}
	for _, fd := range p.way.inOrder(p) {
		part, err := partOf(fd.Raw())
		if err != nil {
			return s, err
		}
		for i, l := range p.lanes {
			if slices.Contains(l.fds(), fd) {
				part.Generation, part.Lane = l.gen, i+1
			}
		}
		s.Parts = append(s.Parts, part)
	}
	for _, l := range p.lanes {
		s.Ports = append(s.Ports, OwnPort{l.gen, l.port})
	}
	return s, nil
}
