package fdpass

import (
	"fmt"
	"log/slog"
	"slices"
)

// restoreOwn makes a socket of its snapshot. A holder that is lost is opened again:
// nothing but what waited in it is lost with it.
func restoreOwn(s Snapshot, find func(Part) *FD, log *slog.Logger) (_ *own, err error) {
	var holder *FD
	var e endpoint
	var lanes []*lane
	again := &group{}
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
	for _, at := range s.Ports {
		lanes = append(lanes, &lane{seat: &seat{fd: NewFD(-1), gen: at.Generation}, port: at.Port, met: true})
	}
	for _, part := range s.Parts {
		fd, at, err := restorePart(part, find)
		switch {
		case err != nil:
			log.Info("a part of a socket is not there any more", "socket", s.Spec.FDName(), "generation", part.Generation, "cause", err)
		case part.Lane < 0 || part.Lane > len(lanes):
			_ = fd.Close()
		case part.Lane == 0:
			holder, e = fd, at
		default:
			seat := lanes[part.Lane-1].seat
			if seat.fd.Raw() < 0 {
				seat.fd = fd
			} else {
				seat.more = append(seat.more, fd)
			}
		}
	}
	if holder == nil {
		log.Warn("the supervisor's own socket on the address is lost, and with it the connections that waited there; it is opened again", "socket", s.Spec.FDName())
		open := openHolder
		if s.Spec.Pass == PassReusePort {
			open = func(s Spec, _ *slog.Logger) (*FD, endpoint, error) {
				lanes = slices.DeleteFunc(lanes, func(l *lane) bool { return l.fd.Raw() < 0 })
				if len(lanes) != 1 || lanes[0].sockets() != 1 {
					return nil, endpoint{}, fmt.Errorf("%d generations have sockets in its group, and where one comes to stand there is not known: %w", len(lanes), ErrLost)
				}
				again.second = true
				return joinAgain(s, lanes[0])
			}
		}
		if holder, e, err = open(s.Spec, log); err != nil {
			return nil, err
		}
	}
	var w way = again
	if s.Spec.Pass == PassPort {
		f, err := newFirewall(s.Spec, e, "")
		if err != nil {
			return nil, err
		}
		f.table.Name = s.Table
		w = f
	}
	p := newOwn(s.Spec, holder, e, w, log)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lanes = lanes
	p.target = p.laneOf(s.Target)
	return p, p.way.resume(p)
}
