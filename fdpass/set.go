package fdpass

import (
	"fmt"
	"net/netip"
	"path"
)

// A SetError tells which specs of a list are wrong, alone or together.
type SetError struct {
	Index int // the spec that is wrong
	Other int // the earlier spec that it cannot go with, or -1
	// Err is a *SpecError about the spec at Index.
	Err error
}

func (e *SetError) Error() string { return fmt.Sprintf("socket %d: %v", e.Index+1, e.Err) }

// Unwrap returns Err.
func (e *SetError) Unwrap() error { return e.Err }

// ValidateSet checks each of the specs of a configuration, and that no two have
// the same name or want the same address. The error is a *SetError about the
// first that is wrong.
func ValidateSet(specs []Spec) error {
	names := make(map[string]int, len(specs))
	places := make(map[uint16][]int) // of the earlier ones, by their port
	for i, s := range specs {
		if err := s.Validate(); err != nil {
			return &SetError{Index: i, Other: -1, Err: err}
		}
		if other, ok := names[s.FDName()]; ok {
			return &SetError{Index: i, Other: other, Err: &SpecError{
				Text: s.String(), Option: "name",
				Reason: fmt.Sprintf("the name %q is that of %s already", s.FDName(), specs[other].address()),
			}}
		}
		names[s.FDName()] = i
		if err := s.ownPortsOf(specs[:i]); err != nil {
			err.Err.(*SpecError).Text, err.Index = s.String(), i
			return err
		}
		port := s.port()
		for _, other := range places[port] {
			if t := specs[other]; s.conflicts(t) {
				return &SetError{Index: i, Other: other, Err: &SpecError{
					Text:   s.String(),
					Reason: fmt.Sprintf("the address is taken by %s %q already", t.address(), t.FDName()),
				}}
			}
		}
		if !s.inet() || port != 0 {
			places[port] = append(places[port], i)
		}
	}
	return nil
}

// port returns the port of an internet spec that is right by itself, and 0 for
// others. Two with different ones do not conflict, nor do internet specs with 0.
func (s Spec) port() uint16 {
	if !s.inet() {
		return 0
	}
	h, err := s.hostPort()
	if err != nil {
		return 0
	}
	return h.port
}

// conflicts reports whether the kernel would refuse to have both sockets bound
// at once, as far as that can be told without looking up host names.
func (s Spec) conflicts(t Spec) bool {
	switch {
	case s.unixPath() && t.unixPath():
		return path.Clean(s.Address) == path.Clean(t.Address)
	case s.local() && t.local():
		return s.Network == t.Network && s.Address == t.Address
	case s.inet() && t.inet():
		return s.transport() == t.transport() && s.conflictsInet(t)
	}
	return false
}

func (s Spec) conflictsInet(t Spec) bool {
	a, errA := s.hostPort()
	b, errB := t.hostPort()
	switch {
	case errA != nil || errB != nil:
		return false
	case a.port != b.port || a.port == 0:
		return false
	case s.ReusePort && t.ReusePort:
		return false
	case s.Device != "" && t.Device != "" && s.Device != t.Device:
		return false
	case a.name != "" || b.name != "":
		return a.name == b.name && s.Network == t.Network
	}
	a4, a6 := a.families(s)
	b4, b6 := b.families(t)
	return overlap(a4, b4) || overlap(a6, b6)
}

// overlap reports whether a socket on a takes in b or the other way round.
func overlap(a, b netip.Addr) bool {
	if !a.IsValid() || !b.IsValid() {
		return false
	}
	return a == b || a.IsUnspecified() || b.IsUnspecified()
}
