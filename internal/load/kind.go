package load

import "fmt"

// Kind is what became of one request.
type Kind uint8

const (
	// OK is a whole answer with a status of 2xx.
	OK Kind = iota
	// Refused means that nobody listened: the connection was refused, or the unix socket's path is missing.
	Refused
	// ConnectReset is a reset instead of a connection.
	ConnectReset
	// WriteReset is a reset, or a broken pipe, while the request was sent.
	WriteReset
	// ReadReset is a reset before the answer was whole.
	ReadReset
	// Closed is an orderly end of the connection before the first byte of an answer.
	Closed
	// Truncated is an orderly end of the connection in the middle of an answer.
	Truncated
	// Timeout means that connect, write or read took longer than [Config.Timeout].
	Timeout
	// BadAnswer is an answer that is not HTTP, or has a status other than 2xx.
	BadAnswer
	// Local means that the client could not do its part (no descriptor or port left, or all workers busy for so long that the
	// queue of due requests ran full): it says nothing about the service, and makes the run [Inconclusive].
	Local

	kinds
)

// String is the kind's name in reports.
func (k Kind) String() string {
	switch k {
	case OK:
		return "ok"
	case Refused:
		return "refused"
	case ConnectReset:
		return "reset on connect"
	case WriteReset:
		return "reset on write"
	case ReadReset:
		return "reset on read"
	case Closed:
		return "closed before the answer"
	case Truncated:
		return "closed within the answer"
	case Timeout:
		return "timeout"
	case BadAnswer:
		return "bad answer"
	case Local:
		return "client at fault"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}
