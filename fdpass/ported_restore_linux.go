package fdpass

import (
	"errors"
	"log/slog"

	"github.com/zddsupervisor/zddsupervisor/internal/redirect"
)

// restorePorted makes a socket of its snapshot. Where connections go is what the
// firewall says. A holder that is lost is opened again: nothing but what waited in
// it is lost with it.
func restorePorted(s Snapshot, find func(Part) *FD, log *slog.Logger) (_ *ported, err error) {
	var holder *FD
	var e endpoint
	var lanes []*lane
	defer func() {
		if err != nil {
			for _, l := range lanes {
				_ = l.close()
			}
			if holder != nil {
				_ = holder.Close()
			}
		}
	}()
	for _, own := range s.Ports {
		lanes = append(lanes, &lane{seat: &seat{fd: NewFD(-1), gen: own.Generation}, port: own.Port, met: true})
	}
parts:
	for _, part := range s.Parts {
		fd, at, err := restorePart(part, find)
		if err != nil {
			log.Info("a part of a socket is not there any more", "socket", s.Spec.FDName(), "generation", part.Generation, "cause", err)
			continue
		}
		port := localPort(fd.Raw())
		for _, l := range lanes {
			switch {
			case l.port != port:
				continue
			case l.fd.Raw() < 0:
				l.fd = fd
			default:
				l.more = append(l.more, fd)
			}
			continue parts
		}
		if holder != nil || port != s.Spec.port() {
			_ = fd.Close()
			continue
		}
		holder, e = fd, at
	}
	if holder == nil {
		log.Warn("the socket on the public port is lost, and with it the connections that waited there; it is opened again", "socket", s.Spec.FDName())
		if holder, e, err = openHolder(s.Spec, log); err != nil {
			return nil, err
		}
	}
	p, err := newPorted(s.Spec, holder, e, "", log)
	if err != nil {
		return nil, err
	}
	p.table.Name, p.lanes = s.Table, lanes
	return p, p.resume(s.Target)
}

// resume goes on from what the firewall has. target is where connections went when
// that was written down.
func (p *ported) resume(target int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = p.laneOf(target)
	has, err := p.table.Read()
	switch {
	case errors.Is(err, redirect.ErrForeign):
		p.found = err.Error()
		p.to.Store(uint32(p.route().To))
		p.log.Error("somebody has changed what the firewall does with new connections; it is left as it is", "cause", err)
		return nil
	case errors.Is(err, redirect.ErrMissing):
		p.log.Error("somebody has removed the firewall's table: it is made again", "table", p.table.Name)
	case err != nil:
		return err
	default:
		p.target = nil
		for _, l := range p.lanes {
			if l.port == has.To {
				p.target = l
			}
		}
	}
	return p.turn(p.target, nil, 0)
}
