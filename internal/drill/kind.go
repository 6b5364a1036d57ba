package drill

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Kind is what became of one request.
type Kind uint8

const (
	// OK is a whole answer with a status that was expected.
	OK Kind = iota
	// Refused means that nobody listened: the connection was refused, or the unix socket's path is missing.
	Refused
	// ConnectReset is a reset instead of a connection.
	ConnectReset
	// Handshake is a TLS handshake that did not come to its end.
	Handshake
	// WriteReset is a reset, or a broken pipe, while the request was sent.
	WriteReset
	// ReadReset is a reset before the answer was whole.
	ReadReset
	// Closed is an orderly end of the connection before the first byte of an answer.
	Closed
	// Truncated is an orderly end of the connection in the middle of an answer.
	Truncated
	// StreamRefused means that an HTTP/2 service ended the stream or said goodbye with the request under way.
	StreamRefused
	// Timeout means that the request took longer than [Config.Timeout].
	Timeout
	// BadStatus is an HTTP status that was not expected.
	BadStatus
	// BadAnswer is an answer that is not of the protocol, or not what [Config.Expect] wants.
	BadAnswer
	// Local means that the client could not do its part (no descriptor or port left, too many requests under way). It says
	// nothing about the service.
	Local

	kinds
)

var kindNames = [kinds]string{
	"ok", "refused", "reset on connect", "TLS handshake failed", "reset on write", "reset on read", "closed before the answer",
	"closed within the answer", "stream refused", "timeout", "bad status", "bad answer", "client at fault",
}

// String is the kind's name in reports.
func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// MarshalText is the name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is the reverse of MarshalText.
func (k *Kind) UnmarshalText(text []byte) error {
	i := slices.Index(kindNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("no kind of failure is called %q", text)
	}
	*k = Kind(i)
	return nil
}

// localError marks a failure of the client itself.
type localError struct{ err error }

func (e *localError) Error() string { return e.err.Error() }
func (e *localError) Unwrap() error { return e.err }

// connectKind tells what a failed connect means.
func connectKind(err error) Kind {
	var local *localError
	switch {
	case errors.As(err, &local):
		return Local
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT):
		return Refused
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return ConnectReset
	case isTimeout(err):
		return Timeout
	}
	return Local
}

// writeKind tells what a failed write means.
func writeKind(err error) Kind {
	switch {
	case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
		return WriteReset
	case isTimeout(err):
		return Timeout
	}
	return Local
}

func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, unix.ETIMEDOUT) || errors.Is(err, unix.EAGAIN)
}
