package carry

import "time"

// A sample is what the kernel says about a connection at one moment, as its server sees it.
type sample struct {
	state    uint8  // of tcp_states.h
	received uint64 // bytes that came in order, read or not
	unread   uint64 // those of them that nobody has read
	written  uint64 // bytes that were written to it, sent or not
	unacked  uint64 // those of them of which the client has not said that they came
	unsent   uint64 // those of them that did not go yet

	// Since data came last and went last, or since it was opened, in steps of the kernel's clock: up to 10 ms.
	sinceReceived, sinceSent time.Duration
}

// States of tcp_states.h.
const (
	established = 1
	closeWait   = 8 // the client has ended its half
)

// shut reports whether the server has ended its half since last, while the client had not. As somebody else has the connection, it takes
// shutdown(2): that is a byte more that was written, in a way.
func (s sample) shut(last sample) bool {
	return s.state != established && s.state != closeWait && last.state == established && s.written == last.written+1
}

// consumed is how many bytes of the client's were read.
func (s sample) consumed() uint64 { return s.received - s.unread }

// moved reports whether the server has read or written anything between two samples. Both counters are exact and only
// grow, so that nothing is missed however far apart the samples are.
func (s sample) moved(since sample) bool {
	return s.consumed() != since.consumed() || s.written != since.written
}

// answers reports whether s, the sample after last, shows that the server has written something since it read last. That
// is not so where it does not show: the clock is coarse.
func (s sample) answers(last sample) bool {
	switch {
	case s.unread > 0:
		return false
	case s.unacked > 0 && s.written > 0:
		// Whatever the client sends after it has got something says that it has.
		return true
	case s.sinceReceived > s.sinceSent:
		return true
	}
	return s.consumed() == last.consumed() && s.written != last.written
}

// A history is what was seen of a connection up to a sample.
type history struct {
	woken    uint64        // bytes that may have woken the server: it may yet read so far without being woken again
	still    time.Duration // how long it has not moved
	answered bool          // the server has written something since it read last
	patience time.Duration // how long an answer may take where it cannot be said whether one is due
}

const (
	// quiet is how long a connection must not move. A server that has answered reads on at once.
	quiet = 5 * time.Millisecond
	// drowsy is quiet where unread bytes have woken the server, before the mark was set: it may have seen that there is
	// something to read, and be about to.
	drowsy = 50 * time.Millisecond
	// prompt is how long an answer may take, from the last byte of the request to its own last byte. What takes longer may
	// be a stream that goes on, or another protocol after an upgrade.
	prompt = time.Second
)

// A verdict is what a connection seems to be doing.
type verdict int

const (
	busy    verdict = iota // in the middle of a request, or of an answer, or it cannot be said
	reading                // its server has to read on: these bytes are no new request
	between                // two requests
)

// judge says what a connection is doing, of which head is how the unread bytes begin.
func judge(s sample, h history, head Beginning) verdict {
	switch {
	case s.state != established:
		return busy
	case s.unread > 0 && head != Partial && head != Whole:
		return reading
	case s.unsent > 0 || h.still < quiet:
		return busy
	case s.unread > 0:
		if s.consumed() < h.woken && h.still < drowsy {
			return busy
		}
		return between
	case s.received == 0:
		return between // it is at its very beginning
	case s.sinceReceived < s.sinceSent, !h.answered && h.still < h.patience:
		return busy // a request has no answer, or none that can be told from the one before
	case s.sinceReceived-s.sinceSent > prompt:
		return busy
	}
	return between
}
