package fdpass

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/redirect"
)

// route is what the firewall is to have. The caller holds mu.
func (p *ported) route() (r redirect.Route) {
	if p.target != nil {
		r.To = p.target.port
	}
	if p.canary != nil && p.share > 0 {
		r.Canary, r.Share = p.canary.port, p.share
	}
	return r
}

// turn changes where connections go. On an error nothing has changed. The caller
// holds mu.
func (p *ported) turn(target, canary *lane, share float64) error {
	oldTarget, oldCanary, oldShare := p.target, p.canary, p.share
	p.target, p.canary, p.share = target, canary, share
	if err := p.table.Set(p.route()); err != nil {
		p.target, p.canary, p.share = oldTarget, oldCanary, oldShare
		return err
	}
	p.to.Store(uint32(p.route().To))
	for _, l := range p.lanes {
		l.turned()
		l.reached = l.reached || p.shareOf(l) > 0
	}
	if target != nil && oldTarget != target {
		p.emptyHolder()
	}
	return nil
}

// turnAway lets a lane have no share any more, if it has one. The caller holds mu.
func (p *ported) turnAway(l *lane) error {
	if l != p.canary {
		return nil
	}
	return p.turn(p.target, nil, 0)
}

// shareOf returns which part of new connections goes to a lane. The caller holds mu.
func (p *ported) shareOf(l *lane) float64 {
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
func (p *ported) accepts(gen int) (*lane, error) {
	switch l := p.laneOf(gen); {
	case l == nil:
		return nil, fmt.Errorf("generation %d has no private port for %s", gen, p.Addr())
	case l.forwards:
		return nil, fmt.Errorf("generation %d was told to stop, and what comes to it on %s is passed on", gen, p.Addr())
	default:
		return l, nil
	}
}

func (p *ported) Cutover(gen int) error {
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
	if err := p.verify(); err != nil {
		return err
	}
	if err := p.turn(l, nil, 0); err != nil {
		return err
	}
	// What waits in the queue of one that has ended goes where the others go now.
	for _, left := range slices.Clone(p.lanes) {
		if left.gen == 0 {
			p.remove(left)
		}
	}
	return nil
}

func (p *ported) Share(gen int, share float64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return err
	}
	l, err := p.accepts(gen)
	if err != nil {
		return err
	}
	if err := p.verify(); err != nil {
		return err
	}
	return p.turn(p.target, l, share)
}

// verify returns an error if the firewall does not do what it is to do. The caller
// holds mu.
func (p *ported) verify() error {
	has, err := p.table.Read()
	switch want := p.route(); {
	case errors.Is(err, redirect.ErrMissing):
		return fmt.Errorf("%w: somebody has removed it, and connections wait until the supervisor has made it again, at the latest a second after that", err)
	case err != nil:
		return err
	case has.To != want.To || has.Canary != want.Canary:
		return fmt.Errorf("%w inet %s of the firewall: it sends connections to port %d, and the supervisor had sent them to %d; "+
			"after \"nft delete table inet %[2]s\" the supervisor makes its own again", redirect.ErrForeign, p.table.Name, has.To, want.To)
	}
	return nil
}

func (p *ported) Revive(gen int) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return false, err
	}
	err := p.verify()
	switch {
	case err == nil:
		p.found = ""
	case errors.Is(err, redirect.ErrMissing):
		if err := p.table.Set(p.route()); err != nil {
			return false, err
		}
		p.repaired++
		p.log.Error("somebody has removed the firewall's table: it is made again, and connections that have come meanwhile are passed on", "table", p.table.Name)
		p.emptyHolder()
	case err.Error() != p.found:
		p.found = err.Error()
		p.log.Error("somebody has changed what the firewall does with new connections; it is left as it is", "cause", err)
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
		if _, limit, err := tcpQueue(fd.Raw()); err == nil && limit == Unknown {
			return true
		}
	}
	return false
}

func (p *ported) Listening(gen int) error {
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

// Dial connects to the private port itself, where nobody else can answer.
func (p *ported) Dial(ctx context.Context, gen int) (net.Conn, error) {
	p.mu.Lock()
	err := p.open()
	l := p.laneOf(gen)
	p.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if l == nil {
		return nil, fmt.Errorf("generation %d has no private port for %s", gen, p.Addr())
	}
	at, err := p.endpoint.addrPort()
	if err != nil {
		return nil, err
	}
	ip := at.Addr()
	if ip.IsUnspecified() {
		ip = loopback(p.endpoint.network)
	}
	return dialer().DialContext(ctx, "tcp", netip.AddrPortFrom(ip, l.port).String())
}

// emptyHolder begins to pass on what waits in the holder, as connections go
// elsewhere now. The caller holds mu.
func (p *ported) emptyHolder() {
	raw := p.holder.Raw() // stays open for as long as that: who closes it waits
	p.passing.Add(1)
	go func() {
		defer p.passing.Done()
		p.passOn(raw)
	}()
}

// passOn passes on what waits in the holder, whose descriptor is borrowed, until
// nothing comes there for a while.
func (p *ported) passOn(raw int) {
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
