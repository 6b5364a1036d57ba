package fdpass

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// restoreOwn makes a socket of its snapshot. A holder that is lost is opened again:
// nothing but what waited in it is lost with it.
func restoreOwn(s Snapshot, find func(Part) *FD, log *slog.Logger) (_ *own, err error) {
	p := newOwn(s.Spec, NewFD(-1), endpoint{}, nil, log)
	defer func() {
		if err == nil {
			return
		}
		for _, fd := range p.parts() {
			_ = fd.Close() // the first error is the one that tells
		}
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range s.Ports {
		p.lanes = append(p.lanes, &lane{seat: &seat{fd: NewFD(-1), gen: at.Generation}, port: at.Port, met: true})
	}
	p.target = p.laneOf(s.Target)
	lost := &lane{seat: &seat{fd: NewFD(-1)}}
	g := &group{}
	for _, part := range s.Parts {
		if part.Lane < 0 || part.Lane > len(p.lanes) {
			continue
		}
		var l *lane
		if part.Lane > 0 {
			l = p.lanes[part.Lane-1]
		}
		fd, at, err := restorePart(part, find)
		if err != nil {
			log.Info("a part of a socket is not there any more", "socket", s.Spec.FDName(), "generation", part.Generation, "cause", err)
			g.order = append(g.order, lost)
			continue
		}
		g.order = append(g.order, l)
		if l == nil {
			p.holder, p.endpoint = fd, at
		} else if err := p.addTo(l, fd); err != nil {
			return nil, err
		}
	}
	if s.Spec.Pass == PassPort {
		err = p.restorePort(s)
	} else {
		err = p.restoreGroup(s, g, lost)
	}
	return p, err
}

// holderLost is what the log says of a holder that is opened again.
const holderLost = "the supervisor's own socket on the address is lost, and with it the connections that waited there; it is opened again"

func (p *own) restorePort(s Snapshot) error {
	if p.holder.Raw() < 0 {
		p.log.Warn(holderLost)
		holder, e, err := openHolder(s.Spec, p.log)
		if err != nil {
			return err
		}
		p.holder, p.endpoint = holder, e
	}
	f, err := newFirewall(s.Spec, p.endpoint, "")
	if err != nil {
		return err
	}
	f.table.Name = s.Table
	p.way = f
	return f.resume(p)
}

// restoreGroup counts the places in g anew, of which those of lost were closed with
// the supervisor before.
func (p *own) restoreGroup(s Snapshot, g *group, lost *lane) error {
	if slices.Contains(g.order, lost) {
		if err := p.reallyLost(s); err != nil {
			return err
		}
		if !g.gone(lost) {
			return fmt.Errorf("sockets of several generations are in its group on %s, and some have left it: which place each has is not known: %w", s.Spec.Address, ErrLost)
		}
	}
	p.way = g
	if p.holder.Raw() >= 0 {
		return g.resume(p)
	}
	p.log.Warn(holderLost)
	i := slices.IndexFunc(p.lanes, func(l *lane) bool { return l.sockets() > 0 && !l.deaf() })
	if i < 0 {
		return ErrLost
	}
	// The program is there before the one that it keeps connections from.
	if err := (steering{to: g.places(p.target)}).attach(p.lanes[i].fd.Raw()); err != nil {
		return err
	}
	holder, e, err := joinAgain(s.Spec, p.lanes[i])
	if err != nil {
		return err
	}
	p.holder, p.endpoint = holder, e
	g.order = append(g.order, nil)
	return g.resume(p)
}

// reallyLost returns an error if a socket that was not found listens still, so that
// it has its place still.
func (p *own) reallyLost(s Snapshot) error {
	listening, err := listenersOn(s.Spec.port())
	if err != nil {
		return err
	}
	known := p.parts()
	for _, part := range s.Parts {
		found := slices.ContainsFunc(known, func(fd *FD) bool { id, err := PartID(fd); return err == nil && id == part.ID })
		listens := slices.ContainsFunc(listening, func(l listener) bool { return l.inode == part.Inode })
		if !found && listens {
			return errors.Join(fmt.Errorf("a socket of generation %d listens on %s, and cannot be duplicated", part.Generation, s.Spec.Address), ErrLost)
		}
	}
	return nil
}
