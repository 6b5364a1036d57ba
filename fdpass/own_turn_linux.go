package fdpass

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// turn changes where connections go. On an error nothing has changed. The caller
// holds mu.
func (p *own) turn(target, canary *lane, share float64) error {
	oldTarget, oldCanary, oldShare := p.target, p.canary, p.share
	p.target, p.canary, p.share = target, canary, share
	if err := p.way.set(p); err != nil {
		p.target, p.canary, p.share = oldTarget, oldCanary, oldShare
		return err
	}
	p.to.Store(p.targetPort())
	for _, l := range p.lanes {
		l.turned()
		l.reached = l.reached || p.shareOf(l) > 0
	}
	if target != nil && oldTarget != target {
		p.emptyHolder()
	}
	return nil
}

// targetPort returns the port that connections go to; 0 for the holder's. The caller
// holds mu.
func (p *own) targetPort() uint32 {
	if p.target == nil {
		return 0
	}
	return uint32(p.target.port)
}

// turnAway lets a lane have no share any more, if it has one. The caller holds mu.
func (p *own) turnAway(l *lane) error {
	if l != p.canary {
		return nil
	}
	return p.turn(p.target, nil, 0)
}

// shareOf returns which part of new connections goes to a lane. The caller holds mu.
func (p *own) shareOf(l *lane) float64 {
	switch l {
	case p.canary:
		return p.share
	case p.target:
		return 1 - p.share
	}
	return 0
}

// accepts returns the lane of a generation to which connections can be sent. The
// caller holds mu.
func (p *own) accepts(gen int) (*lane, error) {
	switch l := p.laneOf(gen); {
	case l == nil:
		return nil, fmt.Errorf("generation %d has no place on %s", gen, p.Addr())
	case l.forwards:
		return nil, fmt.Errorf("generation %d was told to stop, and what comes to it on %s is passed on", gen, p.Addr())
	default:
		return l, nil
	}
}

func (p *own) Cutover(gen int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return err
	}
	if gen == 0 { // they wait in the holder, for whoever has that next
		if p.target == nil && p.canary == nil {
			return nil
		}
		return p.turn(nil, nil, 0)
	}
	l, err := p.accepts(gen)
	if err != nil {
		return err
	}
	if p.target == l && p.canary == nil {
		return nil
	}
	if err := p.way.verify(p); err != nil {
		return err
	}
	if err := p.turn(l, nil, 0); err != nil {
		return err
	}
	// What waits in the queue of one that has ended goes where the others go now.
	var errs []error
	for _, left := range slices.Clone(p.lanes) {
		if left.gen == 0 {
			errs = append(errs, p.forsake(left))
		}
	}
	return errors.Join(errs...)
}

func (p *own) Share(gen int, share float64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return err
	}
	l, err := p.accepts(gen)
	if err != nil {
		return err
	}
	if err := p.way.verify(p); err != nil {
		return err
	}
	return p.turn(p.target, l, share)
}

func (p *own) Revive(gen int) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return false, err
	}
	repaired, err := p.way.repair(p)
	if err != nil {
		return false, err
	}
	if repaired {
		p.repaired++
		p.emptyHolder()
	}
	for _, l := range slices.Clone(p.lanes) { // others may have to leave with one
		if !l.deaf() {
			continue
		}
		if err := p.way.left(p, l); err != nil {
			return false, err
		}
	}
	if waits, err := readable(p.holder.Raw()); err == nil && waits && p.target != nil { // too late for the last look
		p.emptyHolder()
	}
	l := p.laneOf(gen)
	if l == nil || !l.deaf() {
		return false, nil
	}
	p.log.Warn("a generation has shut its socket down, so that clients were refused; they wait for the next one now", "generation", gen, "port", l.port)
	return true, p.turn(nil, nil, 0)
}

// deaf reports whether a process has called shutdown(2) on the lane's sockets.
func (l *lane) deaf() bool {
	for _, fd := range l.fds() {
		if fd.Raw() < 0 {
			continue
		}
		if shut, err := isShutDown(fd.Raw()); err == nil && shut {
			return true
		}
	}
	return false
}

// allDeaf reports whether that is so of each of them.
func (l *lane) allDeaf() bool {
	for _, fd := range l.fds() {
		if fd.Raw() < 0 {
			continue
		}
		if shut, err := isShutDown(fd.Raw()); err != nil || !shut {
			return false
		}
	}
	return true
}

func (p *own) PutBack() error { return nil }

func (p *own) Listening(gen int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return err
	}
	if l := p.laneOf(gen); l != nil && l.deaf() {
		return ErrShutDown
	}
	return nil
}

func (p *own) Dial(ctx context.Context, gen int) (net.Conn, error) {
	p.mu.Lock()
	err := p.open()
	l := p.laneOf(gen)
	p.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case l == nil:
		return nil, fmt.Errorf("generation %d has no place on %s", gen, p.Addr())
	}
	return p.way.dial(ctx, p, l)
}

// host returns where a socket on the address is reached from this machine.
func (p *own) host() (netip.Addr, error) {
	at, err := p.endpoint.addrPort()
	if err != nil || !at.Addr().IsUnspecified() {
		return at.Addr(), err
	}
	return loopback(p.endpoint.network), nil
}

// emptyHolder begins to pass on what waits in the holder, as connections go
// elsewhere now. The caller holds mu.
func (p *own) emptyHolder() {
	raw := p.holder.Raw() // stays open for as long as that: who closes it waits
	p.passing.Add(1)
	go func() {
		defer p.passing.Done()
		p.passOn(raw)
	}()
}

// passOn passes on what waits in the holder, whose descriptor is borrowed, until
// nothing comes there for a while.
func (p *own) passOn(raw int) {
	look := time.NewTicker(leaveInterval)
	defer look.Stop()
	end := time.NewTimer(p.forwarder.patience)
	defer end.Stop()
	for quiet := 0; quiet < settleLooks; quiet++ {
		select {
		case <-look.C:
		case <-end.C:
			return
		case <-p.ended:
			return
		}
		handshakes, err := openHandshakes(raw)
		if p.to.Load() == 0 { // they wait again
			return
		}
		if n := acceptWaiting(raw, func(conn *FD) { p.forwarder.take(conn, nil) }); n > 0 {
			end.Reset(p.forwarder.patience)
			quiet = 0
		}
		if err == nil && handshakes > 0 {
			quiet = 0
		}
	}
}
