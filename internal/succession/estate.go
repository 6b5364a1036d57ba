package succession

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// An Estate is what a supervisor leaves to its successor beside the state file.
type Estate struct {
	Sockets map[string]*fdpass.FD   // its own, by their name in the store
	Systemd map[string][]*fdpass.FD // those of .socket units, by name
	Control []*fdpass.FD            // what the control socket consists of
	// ControlFile is the control socket's file; nil from a supervisor that does not tell it.
	ControlFile *fdpass.FileIdentity
	Watchdog    time.Duration // how often the service manager wants to hear of the supervisor
}

// The kinds of descriptors, which their names begin with.
const (
	ownKind     = "own:"
	systemdKind = "systemd:"
	controlKind = "control:"
)

// send sends everything, and go.
func (e Estate) send(c *net.UnixConn) error {
	var names []string
	var fds []*fdpass.FD
	add := func(name string, fd *fdpass.FD) {
		names, fds = append(names, name), append(fds, fd)
	}
	for name, fd := range e.Sockets {
		add(ownKind+name, fd)
	}
	for name, list := range e.Systemd {
		for _, fd := range list {
			add(systemdKind+name, fd)
		}
	}
	for _, fd := range e.Control {
		add(controlKind, fd)
	}
	for part := range slices.Chunk(indices(len(fds)), maxRights) {
		from, to := part[0], part[len(part)-1]+1
		if err := send(c, message{Names: names[from:to]}, fds[from:to]...); err != nil {
			return err
		}
	}
	return send(c, message{Go: true, Watchdog: e.Watchdog, ControlFile: e.ControlFile})
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// receiveEstate blocks until go has come. The caller owns what it returns.
func receiveEstate(c *net.UnixConn) (_ *Estate, err error) {
	e := &Estate{Sockets: make(map[string]*fdpass.FD), Systemd: make(map[string][]*fdpass.FD)}
	defer func() {
		if err != nil {
			e.Close()
		}
	}()
	for {
		m, fds, err := receive(c)
		switch {
		case err != nil:
			return nil, fmt.Errorf("the supervisor before this one has ended: %w", err)
		case m.Withdraw != "":
			return nil, fmt.Errorf("the supervisor before this one goes on: %s", m.Withdraw)
		case m.Go:
			e.Watchdog, e.ControlFile = m.Watchdog, m.ControlFile
			return e, nil
		}
		for i, fd := range fds {
			if err := e.take(m.Names[i], fd); err != nil {
				fd.Close()
				for _, rest := range fds[i+1:] {
					rest.Close()
				}
				return nil, err
			}
		}
	}
}

// take takes a descriptor.
func (e *Estate) take(name string, fd *fdpass.FD) error {
	switch {
	case strings.HasPrefix(name, ownKind):
		e.Sockets[strings.TrimPrefix(name, ownKind)] = fd
	case strings.HasPrefix(name, systemdKind):
		name = strings.TrimPrefix(name, systemdKind)
		e.Systemd[name] = append(e.Systemd[name], fd)
	case name == controlKind:
		e.Control = append(e.Control, fd)
	default:
		return fmt.Errorf("the other supervisor has sent a descriptor of the unknown kind %q", name)
	}
	return nil
}

// Close closes what is left of it.
func (e *Estate) Close() {
	for _, fd := range e.Sockets {
		fd.Close()
	}
	for _, list := range e.Systemd {
		for _, fd := range list {
			fd.Close()
		}
	}
	for _, fd := range e.Control {
		fd.Close()
	}
}
