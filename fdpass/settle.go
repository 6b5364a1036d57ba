package fdpass

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const (
	// settleLooks is how many looks in a row must find nothing. Between two of
	// them a connection may go from the accept queue to a process, and a packet
	// that was sorted before a cutover becomes a handshake.
	settleLooks = 3
	// The time between two looks grows, since each costs the kernel some.
	settleInterval    = 2 * time.Millisecond
	settleIntervalMax = 10 * time.Millisecond
	// After the first few, looks take no more than a fifth of the time: one goes
	// through all connections of the machine, those in TIME_WAIT too, of which a
	// busy one has a hundred thousand.
	settleRest = 4
)

// Unsettled is what was still on its way to a generation when Settle stopped
// waiting.
type Unsettled struct {
	Queued     int `json:"queued,omitempty"`     // connections that wait to be accepted
	Handshakes int `json:"handshakes,omitempty"` // connections whose handshake is not over
	Unread     int `json:"unread,omitempty"`     // open connections with bytes that were not read
	Young      int `json:"young,omitempty"`      // open connections whose first request has not come, or has no answer yet
}

// Quiet reports whether nothing was left.
func (u Unsettled) Quiet() bool { return u == Unsettled{} }

// Describe says what was left, as in "2 waiting to be accepted, 1 in a handshake".
func (u Unsettled) Describe() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{u.Queued, "waiting to be accepted"}, {u.Handshakes, "in a handshake"}, {u.Unread, "with bytes that were not read"},
		{u.Young, "without their first request or answer"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// Settle blocks until the kernel shows, several times in a row, that nothing is
// on its way to generation gen any more, once Cutover has turned the sockets to
// another one: no connection that began before is in an accept queue or in a
// handshake, has unread bytes, or waits for its first request or for the first
// answer. Later requests on a connection that was answered before do not count:
// they may come as long as it is open.
//
// It waits at most for limit; a connection that is silent for that long does not
// count either. open is what was left then, for each of the sockets; all are
// quiet if Settle returns before. If ctx ends first, err is its error. Another
// error is that of the kernel's tables, which could not be read; then accept
// queues are all that was looked at. In shared mode nothing can be told apart:
// if no socket is steered, it returns at once.
func Settle(ctx context.Context, bound []Bound, gen int, limit time.Duration) (open []Unsettled, err error) {
	return SettleWatched(ctx, bound, gen, limit, func([]Unsettled) {})
}

// SettleWatched is Settle, and shows to seen what each look that is not the last
// one has found, in the order of the sockets. seen is called on the caller's
// goroutine, must not keep what it gets, and holds the next look up.
func SettleWatched(ctx context.Context, bound []Bound, gen int, limit time.Duration, seen func([]Unsettled)) (open []Unsettled, err error) {
	steered := onlySteered(bound)
	if len(steered) == 0 {
		return make([]Unsettled, len(bound)), nil
	}
	end := time.NewTimer(limit)
	defer end.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	interval := settleInterval
	for looks, quiet := 1, 0; ; looks++ {
		select {
		case <-ctx.Done():
			return open, context.Cause(ctx)
		case <-next.C:
		}
		began := time.Now()
		if open, err = look(bound, steered, gen, limit); allQuiet(open) {
			quiet++
		} else {
			quiet = 0
		}
		if quiet == settleLooks {
			return open, err
		}
		select {
		case <-end.C:
			return open, err
		default:
		}
		seen(open)
		wait := interval
		if looks > settleLooks {
			wait = max(wait, settleRest*time.Since(began))
		}
		next.Reset(wait)
		interval = min(interval*2, settleIntervalMax)
	}
}

// onlySteered returns those of the sockets that are steered.
func onlySteered(bound []Bound) (steered []Bound) {
	for _, b := range bound {
		if b.Socket.Mode() == Steered {
			steered = append(steered, b)
		}
	}
	return steered
}

// look asks each socket once, with a census of those that are steered. The error
// is one of the census; the sockets were asked without it then.
func look(bound, steered []Bound, gen int, limit time.Duration) ([]Unsettled, error) {
	open := make([]Unsettled, len(bound))
	census, err := TakeCensus(steered)
	for i, b := range bound {
		open[i] = b.Socket.Pending(gen, census, limit)
	}
	return open, err
}

func allQuiet(open []Unsettled) bool {
	for _, u := range open {
		if !u.Quiet() {
			return false
		}
	}
	return true
}
