package fdpass

import (
	"errors"
	"log/slog"
)

// OpenOptions are what Open needs besides the specs. The zero value opens
// everything anew and logs nothing.
type OpenOptions struct {
	// Have are the sockets that are open already. Those that the specs ask for
	// are kept; the others are left alone, for the caller to retire.
	Have []Bound

	// FromSystemd are the sockets that systemd passed in, by
	// FileDescriptorName=, in the order in which they came. They are borrowed:
	// Open duplicates those that it uses.
	FromSystemd map[string][]*FD

	// Log is told of limits that the kernel has clamped. Nil for nobody.
	Log *slog.Logger
}

// Open opens the sockets of a configuration.
func Open(specs []Spec, o OpenOptions) (all, fresh []Bound, err error) {
	return nil, nil, errors.New("not implemented")
}

// OpenError tells why a socket could not be opened.
type OpenError struct {
	Spec   Spec
	Reason string
	Err    error
}

func (e *OpenError) Error() string { return e.Reason }
func (e *OpenError) Unwrap() error { return e.Err }
