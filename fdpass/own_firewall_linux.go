package fdpass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/internal/redirect"
)

// firewall is the way of a service that is told a port: each generation listens on
// a private one, and the firewall redirects connections to the public one there. If
// somebody empties it, they go to the holder.
type firewall struct {
	table redirect.Table
	found string // what was wrong with it when it was last looked at
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

// openByPort opens the socket of a spec with PassPort anew.
func openByPort(s Spec, service string, log *slog.Logger) (_ *own, err error) {
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
	f, err := newFirewall(s, e, service)
	if err != nil {
		return nil, err
	}
	route, err := f.table.Read()
	switch {
	case errors.Is(err, redirect.ErrMissing):
	case err != nil:
		return nil, err
	case route != redirect.Route{}:
		log.Info("found the firewall's table of a supervisor that is gone", "socket", s.FDName(), "table", f.table.Name, "port", route.To)
	}
	return newOwn(s, holder, e, f, log), f.table.Set(redirect.Route{})
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

// newFirewall returns the way for a public port that a socket is bound to.
func newFirewall(s Spec, e endpoint, service string) (*firewall, error) {
	ports, err := s.privatePorts()
	if err != nil {
		return nil, err
	}
	public, err := e.addrPort()
	if err != nil {
		return nil, err
	}
	return &firewall{table: redirect.Table{
		Name: tableName(service, public.Port()), Public: redirect.Public{Addr: public, V6Only: e.network == TCP6}, Private: ports,
	}}, nil
}

// route is what the firewall is to have.
func (f *firewall) route(p *own) (r redirect.Route) {
	if p.target != nil {
		r.To = p.target.port
	}
	if p.canary != nil && p.share > 0 {
		r.Canary, r.Share = p.canary.port, p.share
	}
	return r
}

func (f *firewall) set(p *own) error { return f.table.Set(f.route(p)) }

func (f *firewall) verify(p *own) error {
	has, err := f.table.Read()
	switch want := f.route(p); {
	case errors.Is(err, redirect.ErrMissing):
		return fmt.Errorf("%w: somebody has removed it, and connections wait until the supervisor has made it again, at the latest a second after that", err)
	case err != nil:
		return err
	case has.To != want.To || has.Canary != want.Canary:
		return fmt.Errorf("%w inet %s of the firewall: it sends connections to port %d, and the supervisor had sent them to %d; "+
			"after \"nft delete table inet %[2]s\" the supervisor makes its own again", redirect.ErrForeign, f.table.Name, has.To, want.To)
	}
	return nil
}

func (f *firewall) repair(p *own) (bool, error) {
	err := f.verify(p)
	switch {
	case err == nil:
		f.found = ""
	case errors.Is(err, redirect.ErrMissing):
		if err := f.set(p); err != nil {
			return false, err
		}
		p.log.Error("somebody has removed the firewall's table: it is made again, and connections that have come meanwhile are passed on", "table", f.table.Name)
		return true, nil
	case err.Error() != f.found:
		f.found = err.Error()
		p.log.Error("somebody has changed what the firewall does with new connections; it is left as it is", "cause", err)
	}
	return false, nil
}

// port returns a private port that nobody has.
func (f *firewall) port(p *own) (uint16, error) {
	var taken []string
	for _, port := range f.table.Private {
		if slices.ContainsFunc(p.lanes, func(l *lane) bool { return l.port == port }) {
			continue
		}
		err := portFree(port)
		if err == nil {
			return port, nil
		}
		taken = append(taken, err.Error())
	}
	if len(taken) > 0 {
		return 0, errors.New(strings.Join(taken, "; "))
	}
	return 0, errFull
}

func (f *firewall) joined(*own, *lane) error { return nil }

func (f *firewall) leaving(*own) error { return nil }

func (f *firewall) left(*own, *lane) error { return nil }

// end empties the table as long as there are connections, which would break off
// with it.
func (f *firewall) end(inUse bool) error {
	if inUse {
		return f.table.Set(redirect.Route{})
	}
	return f.table.Remove()
}

func (f *firewall) inOrder(p *own) []*FD { return p.parts() }

// resume goes on from what the firewall has.
func (f *firewall) resume(p *own) error {
	has, err := f.table.Read()
	switch {
	case errors.Is(err, redirect.ErrForeign):
		f.found = err.Error()
		p.to.Store(p.targetPort())
		p.log.Error("somebody has changed what the firewall does with new connections; it is left as it is", "cause", err)
		return nil
	case errors.Is(err, redirect.ErrMissing):
		p.log.Error("somebody has removed the firewall's table: it is made again", "table", f.table.Name)
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

// dial connects to the private port itself, where nobody else can answer.
func (f *firewall) dial(ctx context.Context, p *own, l *lane) (net.Conn, error) {
	ip, err := p.host()
	if err != nil {
		return nil, err
	}
	return dialer().DialContext(ctx, "tcp", netip.AddrPortFrom(ip, l.port).String())
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
