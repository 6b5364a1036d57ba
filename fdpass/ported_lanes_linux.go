package fdpass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Join chooses a private port for gen. Where all are taken, the one of a generation
// that connections do not go to is taken away as by Leave.
func (p *ported) Join(gen, heirOf int) (*FD, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return nil, err
	}
	if p.laneOf(gen) != nil {
		return nil, nil
	}
	if err := p.verify(); err != nil {
		return nil, err
	}
	if left := p.laneOf(heirOf); left != nil {
		if err := p.abandon(left); err != nil {
			return nil, err
		}
	}
	port, err := p.freePort()
	if err != nil {
		return nil, err
	}
	p.lanes = append(p.lanes, &lane{seat: &seat{fd: NewFD(-1), gen: gen}, port: port})
	return nil, nil
}

// abandon makes a lane nobody's, as its generation has ended. Connections go on
// waiting in its queue if we have that too, and else in the holder. The caller
// holds mu.
func (p *ported) abandon(l *lane) error {
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
	p.remove(l)
	return nil
}

// freePort returns a private port that nobody has. The caller holds mu.
func (p *ported) freePort() (uint16, error) {
	for {
		var taken []string
		for _, port := range p.table.Private {
			if slices.ContainsFunc(p.lanes, func(l *lane) bool { return l.port == port }) {
				continue
			}
			err := portFree(port)
			if err == nil {
				return port, nil
			}
			taken = append(taken, err.Error())
		}
		i := slices.IndexFunc(p.lanes, func(l *lane) bool { return l != p.target && l != p.canary })
		switch {
		case len(taken) > 0:
			return 0, errors.New(strings.Join(taken, "; "))
		case i < 0:
			return 0, fmt.Errorf("all of its private ports %s are in use", p.spec.Ports)
		}
		p.remove(p.lanes[i])
	}
}

// remove takes a lane away that connections do not go to. What waits there goes to
// the generation that they do go to. The caller holds mu.
func (p *ported) remove(l *lane) {
	for _, fd := range l.fds() {
		if own, err := p.endpoint.stats(fd.Raw()); err == nil {
			p.dropped = sum(p.dropped, own.Dropped)
		}
	}
	at := p.endpoint
	at.address = p.reach(l).addr.String()
	if lost := l.leave(p.forwarder, at); lost > 0 {
		p.forwarder.lost.Add(int64(lost))
		p.log.Warn("connections were reset that nobody would accept", "generation", l.gen, "port", l.port, "connections", lost)
	}
	p.lanes = slices.DeleteFunc(p.lanes, func(other *lane) bool { return other == l })
}

func (p *ported) Port(gen int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.laneOf(gen); l != nil {
		return int(l.port)
	}
	return 0
}

func (p *ported) Listeners(gen int) (inodes []uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return nil, err
	}
	l := p.laneOf(gen)
	if l == nil {
		return nil, fmt.Errorf("generation %d has no private port for %s", gen, p.Addr())
	}
	all, err := listenersOn(l.port)
	for _, found := range all {
		if found.inode != 0 {
			inodes = append(inodes, found.inode)
		}
	}
	return inodes, err
}

func (p *ported) Met(gen int, listeners []*FD) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.laneOf(gen)
	if p.closed || l == nil || l.met {
		for _, fd := range listeners {
			_ = fd.Close()
		}
		return p.open()
	}
	l.met = true
	if len(listeners) > 0 {
		l.fd, l.more = listeners[0], listeners[1:]
	}
	return nil
}

func (p *ported) Pending(gen int, c *Census, limit time.Duration) Unsettled {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.laneOf(gen)
	if p.closed || l == nil || l == p.target {
		return Unsettled{}
	}
	u := l.pending(c, p.reach(l), limit)
	if len(l.more) == 0 && l.fd.Raw() < 0 && c != nil {
		// Without its sockets, what waits in a queue shows as connections of nobody.
		for conn := range c.to(p.reach(l)) {
			if conn.inode == 0 && !conn.handshake() {
				u.Queued++
			}
		}
	}
	return u
}

func (p *ported) Forward(gen int) error {
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

// Leave also works after Close: the last one takes the firewall's table away.
func (p *ported) Leave(gen int) error {
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
		return p.table.Remove()
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
	p.remove(l)
	return nil
}

func (p *ported) Retire(ctx context.Context) error {
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
func (p *ported) busy() (bool, error) {
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

func (p *ported) Release() error {
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

func (p *ported) Relays(ctx context.Context) { p.forwarder.wait(ctx) }

func (p *ported) EachPart(do func(id string, fd *FD) error) error {
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
func (p *ported) parts() []*FD {
	fds := []*FD{p.holder}
	for _, l := range p.lanes {
		fds = append(fds, l.fds()...)
	}
	return slices.DeleteFunc(fds, func(fd *FD) bool { return fd.Raw() < 0 })
}

func (p *ported) Snapshot() (Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return Snapshot{}, err
	}
	s := Snapshot{Spec: p.spec, Mode: Steered, Table: p.table.Name}
	if p.target != nil {
		s.Target = p.target.gen
	}
	for _, fd := range p.parts() {
		part, err := partOf(fd.Raw())
		if err != nil {
			return s, err
		}
		for _, l := range p.lanes {
			if slices.Contains(l.fds(), fd) {
				part.Generation = l.gen
			}
		}
		s.Parts = append(s.Parts, part)
	}
	for _, l := range p.lanes {
		s.Ports = append(s.Ports, OwnPort{l.gen, l.port})
	}
	return s, nil
}

// localPort returns the port that the socket raw, which is borrowed, is bound to.
func localPort(raw int) uint16 {
	sa, err := unix.Getsockname(raw)
	if err != nil {
		return 0
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return uint16(sa.Port)
	case *unix.SockaddrInet6:
		return uint16(sa.Port)
	}
	return 0
}
