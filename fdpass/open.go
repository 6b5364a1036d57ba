package fdpass

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

// OpenOptions are what Open needs besides the specs. The zero value opens
// everything anew and logs nothing.
type OpenOptions struct {
	// Have are the sockets that are open already. Those that the specs ask for
	// are kept; the others are left alone, for the caller to retire.
	Have []Bound

	// FromSystemd are the sockets that systemd passed in, by
	// FileDescriptorName=, in the order in which they came. They are borrowed:
	// Open duplicates those that it uses. Give the same ones at each call.
	FromSystemd map[string][]*FD

	// Service is the name of the service, for what is made outside of this process:
	// tables of the firewall.
	Service string

	// Owner is the number of the user that the service runs as; 0 stands for the
	// supervisor's own. Sockets that it opens itself go by it.
	Owner int

	// Log is told of limits that the kernel has clamped, of a fall-back to
	// IPv4, and of removed files of dead processes. Nil for nobody.
	Log *slog.Logger
}

// Open returns a socket for each of the specs, in their order. A spec with the
// Key of a socket in o.Have is served by that, and fresh are the others, which
// were opened now. It is all or nothing: on an error what was fresh is closed
// again. Kept sockets are not touched in any case; once the configuration holds
// for good, call Reconfigure on them with the new spec.
//
// Where several sockets have one key, a spec gets that of its name, or else the
// next in order.
//
// The error is a *SetError if the specs are not right by themselves, and else
// an *OpenError about the first socket that could not be opened; it wraps
// ErrNotChangeable where a kept socket would have to become another.
//
// Open blocks while it looks up host names, at most 5 s for each, and users.
func Open(specs []Spec, o OpenOptions) (all, fresh []Bound, err error) {
	if err := ValidateSet(specs); err != nil {
		return nil, nil, err
	}
	op := &opening{have: o.Have, systemd: o.FromSystemd, service: o.Service, owner: o.Owner, log: o.Log}
	if op.log == nil {
		op.log = slog.New(slog.DiscardHandler)
	}
	all = keep(specs, o.Have)
	for _, b := range all {
		if b.Socket == nil {
			continue
		}
		if err := op.stays(b); err != nil {
			return nil, nil, err
		}
	}
	defer func() {
		if err != nil {
			for _, b := range slices.Backward(op.fresh) {
				_ = b.Socket.Close() // the first error is the one that tells
			}
			all, fresh = nil, nil
		}
	}()
	for i := range all {
		if all[i].Socket != nil {
			continue
		}
		if all[i].Socket, err = op.open(all[i].Spec); err != nil {
			return nil, nil, err
		}
		op.fresh = append(op.fresh, all[i])
	}
	return all, op.fresh, nil
}

// keep returns an entry for each spec, in order, with the socket that serves it
// if there is one already.
func keep(specs []Spec, have []Bound) []Bound {
	all := make([]Bound, len(specs))
	free := make(map[string][]Bound) // what may be kept, by its key, in order
	for _, b := range have {
		free[b.Spec.Key()] = append(free[b.Spec.Key()], b)
	}
	take := func(i int, fits func(Bound) bool) {
		key := all[i].Spec.Key()
		if j := slices.IndexFunc(free[key], fits); j >= 0 {
			all[i].Socket = free[key][j].Socket
			free[key] = slices.Delete(free[key], j, j+1)
		}
	}
	for i, s := range specs {
		s.Name = s.FDName()
		all[i].Spec = s
		take(i, func(b Bound) bool { return b.Spec.FDName() == s.Name })
	}
	for i := range specs {
		if all[i].Socket == nil {
			take(i, func(Bound) bool { return true })
		}
	}
	return all
}

// An opening is one call of Open.
type opening struct {
	have    []Bound
	fresh   []Bound
	systemd map[string][]*FD
	service string
	owner   int
	log     *slog.Logger
}

// stays checks that a kept socket can serve its new spec.
func (op *opening) stays(b Bound) error {
	for _, h := range op.have {
		if h.Socket != b.Socket {
			continue
		}
		if err := changeable(h.Spec, b.Spec); err != nil {
			return &OpenError{Spec: b.Spec, Reason: err.Error() + "; restart to change it, or give the socket another address", Err: err}
		}
	}
	return nil
}

// open opens the socket of one spec, which has its name.
func (op *opening) open(s Spec) (Socket, error) {
	var socket Socket
	var err error
	switch {
	case s.Network == Systemd:
		return op.adopt(s)
	case s.local():
		socket, err = openUnix(s, op.log)
	case s.Pass == PassPort:
		socket, err = openByPort(s, op.service, op.log)
	case s.Pass == PassReusePort:
		socket, err = openByReusePort(s, op.owner, op.log)
	default:
		socket, err = openInet(s, op.log)
	}
	if err != nil {
		return nil, op.explain(s, err)
	}
	return socket, nil
}

// adopt takes the next socket of a name that systemd passed in.
func (op *opening) adopt(s Spec) (Socket, error) {
	passed := op.systemd[s.Address]
	for _, fd := range passed {
		if op.used(fd) {
			continue
		}
		socket, err := adopt(s, fd, op.log)
		if err != nil {
			return nil, &OpenError{Spec: s, Err: err, Reason: fmt.Sprintf("the descriptor that systemd passed as %q cannot be used: %v", s.Address, err)}
		}
		return socket, nil
	}
	reason := fmt.Sprintf("systemd passed no socket named %q", s.Address)
	switch {
	case len(passed) > 0:
		reason = fmt.Sprintf("systemd passed only %d named %q", len(passed), s.Address)
	case len(op.systemd) > 0:
		reason += ", only " + strings.Join(slices.Sorted(maps.Keys(op.systemd)), ", ")
	}
	return nil, &OpenError{Spec: s, Err: ErrNotPassed, Reason: reason + "; check FileDescriptorName= and Service= of the .socket unit"}
}

// used reports whether a socket that is open already is the one of fd.
func (op *opening) used(fd *FD) bool {
	want, err := cookie(fd.Raw())
	if err != nil {
		return false // no socket at all, which inspect tells better
	}
	for _, b := range slices.Concat(op.have, op.fresh) {
		own, ok := b.Socket.(interface{ cookie() (uint64, error) })
		if !ok {
			continue
		}
		if got, err := own.cookie(); err == nil && got == want {
			return true
		}
	}
	return false
}

// holder returns the socket of this supervisor that is in the way of a spec.
func (op *opening) holder(s Spec) (Bound, bool) {
	for _, b := range slices.Concat(op.have, op.fresh) {
		literal, err := ParseSpec(b.Socket.Addr())
		if s.conflicts(b.Spec) || err == nil && s.conflicts(literal) {
			return b, true
		}
	}
	return Bound{}, false
}

// ErrNotPassed is wrapped by the OpenError about a socket that systemd should
// have passed in and did not.
var ErrNotPassed = errors.New("not passed in by systemd")

// An OpenError tells why one socket could not be opened.
type OpenError struct {
	Spec   Spec
	Reason string // what is wrong and what to do, in words
	Err    error  // the cause; may be an *os.SyscallError
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("socket %s: %s", cmp.Or(e.Spec.FDName(), "?"), e.Reason)
}

// Unwrap returns Err.
func (e *OpenError) Unwrap() error { return e.Err }
