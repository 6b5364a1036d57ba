package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// ErrPlaceholder is returned for a placeholder that stands for nothing.
var ErrPlaceholder = errors.New("cannot be replaced")

// firstFD is the number of the first descriptor that a service gets.
const firstFD = 3

// readyFD is what {fd:NAME} calls the descriptor of ready.by = "fd".
const readyFD = "ready"

// Values is what the placeholders in a configuration stand for.
type Values struct {
	FDs        []string // the names of the descriptors from 3 on, for {fd:NAME}
	Others     []string // the names of sockets that have no descriptor from the start on
	Generation int      // {generation}
	Release    string   // {release}, or "" where releases are not managed

	// Ported are the names of the sockets that are passed as a port, for {port:NAME}.
	Ported []string
	// Ports are the private ports by those names. Nil leaves {port:NAME} as it is,
	// to be replaced by another Values once they are known.
	Ports map[string]int
}

// Values returns what the placeholders stand for in a generation that gets the
// sockets of c in their order.
func (c *Config) Values(generation int, release string) Values {
	v := Values{Generation: generation, Release: release}
	for _, s := range c.Sockets {
		if s.Inherited() {
			v.FDs = append(v.FDs, s.FDName())
		} else {
			v.Others = append(v.Others, s.FDName())
		}
		if s.Pass == fdpass.PassPort {
			v.Ported = append(v.Ported, s.FDName())
		}
	}
	if c.Ready.By == ByFD {
		v.FDs = append(v.FDs, readyFD)
	}
	return v
}

// Expand returns texts with every placeholder replaced. The error for one that
// stands for nothing wraps ErrPlaceholder. Braces that do not make a placeholder
// are left alone, and so are those after a '$', which are a shell's.
func (v Values) Expand(texts []string) ([]string, error) {
	expanded := make([]string, len(texts))
	for i, text := range texts {
		var err error
		if expanded[i], err = v.expand(text); err != nil {
			return nil, err
		}
	}
	return expanded, nil
}

func (v Values) expand(text string) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if strings.HasSuffix(before, "$") { // a shell's variable, whatever its name
			b.WriteByte('{')
			text = rest
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		replaced, known, err := v.replace(name)
		if err != nil {
			return "", err
		}
		if !closed || !known {
			b.WriteByte('{')
			text = rest
			continue
		}
		b.WriteString(replaced)
		text = after
	}
}

// replace returns what the placeholder stands for that has name between its
// braces, and whether it is one.
func (v Values) replace(name string) (text string, known bool, err error) {
	switch {
	case name == "generation":
		return strconv.Itoa(v.Generation), true, nil
	case name == "release" && v.Release == "":
		return "", true, fmt.Errorf("{release} %w: there is no [releases] in the configuration", ErrPlaceholder)
	case name == "release":
		return v.Release, true, nil
	}
	if port, ok := strings.CutPrefix(name, "port:"); ok {
		return v.replacePort(port)
	}
	fd, ok := strings.CutPrefix(name, "fd:")
	if !ok {
		return "", false, nil
	}
	for i, known := range v.FDs {
		if known == fd {
			return strconv.Itoa(firstFD + i), true, nil
		}
	}
	if slices.Contains(v.Others, fd) {
		return "", true, fmt.Errorf("{fd:%s} %w: the service does not inherit that socket, since its pass is not %q", fd, ErrPlaceholder, fdpass.PassFD)
	}
	return "", true, fmt.Errorf("{fd:%s} %w: no socket has that name; %s", fd, ErrPlaceholder, thereAre(v.FDs))
}

// replacePort returns what {port:NAME} stands for, as replace does.
func (v Values) replacePort(name string) (text string, known bool, err error) {
	switch port, ok := v.Ports[name]; {
	case !slices.Contains(v.Ported, name) && len(v.Ported) == 0:
		return "", true, fmt.Errorf("{port:%s} %w: no socket has pass = \"port\"", name, ErrPlaceholder)
	case !slices.Contains(v.Ported, name):
		return "", true, fmt.Errorf("{port:%s} %w: no socket with pass = \"port\" has that name; %s", name, ErrPlaceholder, thereAre(v.Ported))
	case v.Ports == nil:
		return "", false, nil
	case !ok:
		return "", true, fmt.Errorf("{port:%s} %w: there is no generation that has the port", name, ErrPlaceholder)
	default:
		return strconv.Itoa(port), true, nil
	}
}

// WithPorts returns what is left to replace once the private ports are known:
// {port:NAME}, and nothing else.
func (v Values) WithPorts(ports map[string]int) PortValues { return PortValues{v.Ported, ports} }

// PortValues replace {port:NAME} in what Values has expanded.
type PortValues struct {
	ported []string
	ports  map[string]int
}

// Expand returns texts with every {port:NAME} replaced.
func (p PortValues) Expand(texts []string) []string {
	var pairs []string
	for name, port := range p.ports {
		pairs = append(pairs, "{port:"+name+"}", strconv.Itoa(port))
	}
	r := strings.NewReplacer(pairs...)
	expanded := make([]string, len(texts))
	for i, text := range texts {
		expanded[i] = r.Replace(text)
	}
	return expanded
}

// Environ returns an environment with every {port:NAME} replaced, and with PORT,
// which is the port of the first socket that is passed as one.
func (p PortValues) Environ(entries []string) []string {
	var env environment
	for _, entry := range p.Expand(entries) {
		name, value, _ := strings.Cut(entry, "=")
		env.set(name, value)
	}
	if len(p.ported) > 0 {
		env.set("PORT", strconv.Itoa(p.ports[p.ported[0]]))
	}
	return env.entries
}

// thereAre says which names of sockets there are.
func thereAre(names []string) string {
	if len(names) == 0 {
		return "there are no sockets"
	}
	return "there are " + strings.Join(names, ", ")
}

// inherited returns how many of the sockets the service inherits.
func inherited(sockets []fdpass.Spec) (n int) {
	for _, s := range sockets {
		if s.Inherited() {
			n++
		}
	}
	return n
}

// readyIsTaken reports whether a socket has the name of the ready descriptor.
func readyIsTaken(sockets []fdpass.Spec) bool {
	for _, s := range sockets {
		if s.FDName() == readyFD {
			return true
		}
	}
	return false
}
