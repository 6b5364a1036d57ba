package fdpass

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxPorts bounds how many private ports a socket may have.
const maxPorts = 64

// privatePorts returns the ports of Spec.Ports, in their order. The error says
// what would be right.
func (s Spec) privatePorts() (ports []uint16, err error) {
	for part := range strings.SplitSeq(s.Ports, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			to = from
		}
		first, firstErr := parsePort(strings.TrimSpace(from))
		last, lastErr := parsePort(strings.TrimSpace(to))
		if firstErr != nil || lastErr != nil || first == 0 || last < first {
			return nil, fmt.Errorf("%q is neither a port nor a range of ports such as 18081-18082", part)
		}
		if int(last)-int(first) >= maxPorts {
			return nil, fmt.Errorf("%q is more than %d ports", part, maxPorts)
		}
		for p := int(first); p <= int(last); p++ {
			if slices.Contains(ports, uint16(p)) {
				return nil, fmt.Errorf("port %d is in it twice", p)
			}
			ports = append(ports, uint16(p))
		}
	}
	if len(ports) < 2 || len(ports) > maxPorts {
		return nil, fmt.Errorf("it is %d ports, and has to be two at least, for the old generation and the new one, and %d at most", len(ports), maxPorts)
	}
	return ports, nil
}

// checkPorts refuses what does not go with a service that opens its sockets itself.
func (s Spec) checkPorts() *SpecError {
	if !s.SelfBound() {
		return nil
	}
	switch {
	case !s.tcp():
		return wrong("pass", "option \"pass\": %q is only for tcp sockets", s.Pass)
	case s.Mode == Shared:
		return wrong("mode", "option \"mode\": a socket with pass=%s is never shared; leave it out", s.Pass)
	case s.Pass == PassPort && s.Ports == "":
		return wrong("ports", "option \"pass\": the private ports are not given; write for example ports = \"18081-18082\", two ports that nothing else uses")
	}
	for _, o := range options() {
		own := []string{"reuseport", "device", "transparent", "freebind", "rcvbuf", "sndbuf", "mark", "defer-accept", "fastopen", "nonblocking"}
		if slices.Contains(own, o.name) && o.get(s) != "" {
			return wrong(o.name, "option %q cannot be given with pass=%s: the service opens its sockets itself", o.name, s.Pass)
		}
	}
	h, err := s.hostPort()
	switch {
	case err != nil:
		return nil // which checkAddress tells
	case h.port == 0:
		return wrong("", "the port that clients connect to has to be given with pass=%s, and cannot be 0", s.Pass)
	case s.Pass != PassPort:
		return nil
	}
	ports, err := s.privatePorts()
	switch {
	case err != nil:
		return wrong("ports", "option \"ports\": %v", err)
	case slices.Contains(ports, h.port):
		return wrong("ports", "option \"ports\": %d is the port that clients connect to", h.port)
	}
	return nil
}

// ownPortsOf looks for a port that this spec and one of others both want, at
// least one of them as a private one. The error lacks Index and the spec's text.
func (s Spec) ownPortsOf(others []Spec) *SetError {
	takes := func(a, b Spec) (port uint16, taken bool) {
		if a.Pass != PassPort || !b.tcp() {
			return 0, false
		}
		own, _ := a.privatePorts()
		taking := []uint16{b.port()}
		if b.Pass == PassPort {
			more, _ := b.privatePorts()
			taking = append(taking, more...)
		}
		for _, p := range own {
			if slices.Contains(taking, p) {
				return p, true
			}
		}
		return 0, false
	}
	for i, other := range others {
		port, taken := takes(s, other)
		if !taken {
			port, taken = takes(other, s)
		}
		if taken {
			return &SetError{Other: i, Err: &SpecError{Option: "ports",
				Reason: "port " + strconv.Itoa(int(port)) + " is one of the private ports of a socket, and " + other.FDName() + " and " + s.FDName() + " both want it"}}
		}
	}
	return nil
}
