package child

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// A Pass is a protocol by which a program is told, in its environment, of the
// sockets that it is started with. Each has a file of its own and a line in
// protocols.
type Pass string

// A protocol is what a Pass stands for. owns reports whether a variable is its
// own: one of that name in Command.Env is dropped where it is used. announce
// returns the variables for at least one socket, but for what only the child
// itself knows; its error says which socket cannot be told of, and why.
type protocol struct {
	pass     Pass
	owns     func(variable string) bool
	announce func(c *Command) ([]string, error)
}

func protocols() []protocol {
	return []protocol{listenFDs(), serverStarter(), einhorn(), nginx(), phpFPM()}
}

// errUnknownPass is a Pass that is none of Passes.
var errUnknownPass = errors.New("there is no such protocol to pass sockets by")

// Passes returns all protocols, the one first that is used where nothing is said.
func Passes() []Pass {
	var all []Pass
	for _, p := range protocols() {
		all = append(all, p.pass)
	}
	return all
}

// protocol returns what the pass stands for.
func (p Pass) protocol() (protocol, error) {
	all := protocols()
	if i := slices.IndexFunc(all, func(known protocol) bool { return known.pass == p }); i >= 0 {
		return all[i], nil
	}
	return protocol{}, fmt.Errorf("%w: %q", errUnknownPass, p)
}

// Owns reports whether the protocol sets an environment variable, if there are
// enough sockets.
func (p Pass) Owns(variable string) bool {
	known, err := p.protocol()
	return err == nil && known.owns(variable)
}

// Check returns an error if a program cannot be told by p of a socket with this
// address, which is in the notation of fdpass.ParseSpec. The error says why.
func (p Pass) Check(address string) error {
	known, err := p.protocol()
	if err != nil {
		return err
	}
	_, err = known.announce(&Command{Sockets: []NamedFD{{Address: address}}})
	return err
}

// announcement returns the variables that tell of the command's sockets, but for
// LISTEN_PID.
func (c *Command) announcement() (env []string, err error) {
	for _, pass := range c.passes() {
		p, err := pass.protocol()
		if err != nil {
			return nil, err
		}
		if len(c.Sockets) == 0 {
			continue
		}
		entries, err := p.announce(c)
		if err != nil {
			return nil, err
		}
		env = append(env, entries...)
	}
	return env, nil
}

// passes are the protocols in use.
func (c *Command) passes() []Pass {
	if c.Pass == nil {
		return []Pass{PassListenFDs}
	}
	return c.Pass
}

// owned reports whether the command's protocols set a variable themselves.
func (c *Command) owned(variable string) bool {
	return slices.ContainsFunc(c.passes(), func(p Pass) bool { return p.Owns(variable) })
}

// descriptor is the descriptor that the i-th of Command.Sockets has in the child.
func descriptor(i int) string { return strconv.Itoa(FirstFD + i) }

// spec returns where a socket is.
func (s *NamedFD) spec() (fdpass.Spec, error) {
	spec, err := fdpass.ParseSpec(s.Address)
	if err != nil {
		return spec, fmt.Errorf("the address of socket %s: %w", s.Name, err)
	}
	return spec, nil
}

// named returns a function that knows some names.
func named(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}
