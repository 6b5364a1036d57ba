package child

import (
	"fmt"
	"os"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// An Offer is a socket that a program does not inherit, but gets as soon as it asks bind(2) for
// the socket's address: its own socket is replaced by this one, in the place of the same
// descriptor.
type Offer struct {
	// Bound says which addresses mean the socket.
	Bound fdpass.Bound

	// FD is the socket. It is borrowed until Start or Process.Lend returns.
	FD *fdpass.FD

	// Alone says that no other program has the socket. Then it gets the O_NONBLOCK of the program's
	// own one, which all who have it share.
	Alone bool

	// Taken says that the program has got the socket already.
	Taken bool
}

// name is the socket's in the configuration.
func (o Offer) name() string { return o.Bound.Spec.FDName() }

// A NotBoundError is a program that has not asked for all that it was offered.
type NotBoundError struct {
	Sockets []string // what it has not asked for: names and addresses
	Instead []string // what it asks for that is nearly the same, and what to do about it
	Err     error    // why it was not waited for any longer
}

// Error is such as "it has not bound http (tcp://[::]:80); process 7 binds ...".
func (e *NotBoundError) Error() string {
	text := "it has not bound " + strings.Join(e.Sockets, ", ")
	if len(e.Instead) == 0 {
		return text + `; with pass = "adopt" a service has to bind the address that listen says, by itself`
	}
	return text + "; " + strings.Join(e.Instead, "; ")
}

// Unwrap returns Err.
func (e *NotBoundError) Unwrap() error { return e.Err }

// duplicates returns the offers with descriptors of the caller's own.
func duplicates(offers []Offer) (own []Offer, err error) {
	for _, o := range offers {
		if o.FD, err = o.FD.Dup(); err != nil {
			closeOffers(own)
			return nil, fmt.Errorf("socket %s: %w", o.name(), err)
		}
		own = append(own, o)
	}
	return own, nil
}

func closeOffers(offers []Offer) {
	for _, o := range offers {
		o.FD.Close()
	}
}

// checkOffers finds what no program can be offered.
func checkOffers(offers []Offer) error {
	for _, o := range offers {
		if o.Bound.Socket == nil || o.FD.Raw() < 0 {
			return fmt.Errorf("socket %s: %w", o.name(), os.ErrClosed)
		}
	}
	return nil
}
