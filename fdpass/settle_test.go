package fdpass

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"
)

// TestSettle lets every reason keep Settle waiting, which ends as soon as the
// reason does.
func TestSettle(t *testing.T) {
	t.Parallel()
	for name, r := range reasons {
		for _, spec := range []string{"tcp://127.0.0.1:0", "tcp://[::1]:0"} {
			t.Run(name+" "+spec, func(t *testing.T) {
				t.Parallel()
				s := mustSteer(t, spec+r.spec)
				fd := join(t, s)
				end := r.begin(t, s, fd)
				serve(t, s, 2, 0)
				st := settle(t, s, long)
				st.looks(2 * settleLooks)
				end()
				st.ends(Unsettled{})
			})
		}
	}
}

// TestSettleLimit lets every reason last until the limit.
func TestSettleLimit(t *testing.T) {
	t.Parallel()
	for name, r := range reasons {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mustSteer(t, "tcp://127.0.0.1:0"+r.spec)
			fd := join(t, s)
			r.begin(t, s, fd)
			serve(t, s, 2, 0)
			must(t, s.Cutover(2))
			// No clock: the limit of Settle is over at once, and that of a silent
			// connection never.
			c, err := TakeCensus([]Bound{{Socket: s}})
			must(t, err)
			if got := s.Pending(1, c, long); got != r.open {
				t.Errorf("pending: %+v, want %+v", got, r.open)
			}
			if got := s.Pending(2, c, long); !got.Quiet() {
				t.Errorf("pending for the generation that connections go to: %+v", got)
			}
			if got := s.Pending(1, nil, long); got != (Unsettled{Queued: r.open.Queued}) {
				t.Errorf("pending without a census: %+v", got)
			}
			if r.open.Young > 0 {
				return // the limit is theirs as well
			}
			must(t, s.Cutover(1))
			settle(t, s, 20*time.Millisecond).ends(r.open)
		})
	}
}

// TestSettleIgnores has connections that are none of a settling generation's
// business.
func TestSettleIgnores(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://:0")
	fd := join(t, s)
	other := mustSteer(t, "tcp://:0")
	serve(t, other, 1, 0).stop()
	for _, address := range addressesOf(other) {
		c, err := net.DialTimeout("tcp", address, deadline)
		must(t, err)
		defer c.Close()
	}
	for _, address := range addressesOf(s) {
		// Kept alive, answered before, and idle.
		c, err := net.DialTimeout("tcp", address, deadline)
		must(t, err)
		defer c.Close()
		c.Write([]byte("request"))
		exchange(t, accept(t, fd))
		readText(t, c, "answer")
		// Answered, and with its end unread.
		c, err = net.DialTimeout("tcp", address, deadline)
		must(t, err)
		defer c.Close()
		c.Write([]byte("request"))
		exchange(t, accept(t, fd))
		readText(t, c, "answer")
		c.(*net.TCPConn).CloseWrite()
	}
	serve(t, s, 2, 0)
	settle(t, s, long).ends(Unsettled{})
}

// TestSettleSilent has a connection that has been silent for longer than the
// limit, which Settle does not wait for at all.
func TestSettleSilent(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0")
	fd := join(t, s)
	dialText(t, s.Addr())
	accept(t, fd)
	serve(t, s, 2, 0)
	must(t, s.Cutover(2))
	const limit = 100 * time.Millisecond
	var c *Census
	eventually(t, "the connection was silent", func() (silent bool) {
		var err error
		c, err = TakeCensus([]Bound{{Socket: s}})
		must(t, err)
		at := reachesOf(s)[0]
		for conn := range c.to(at) {
			silent = conn.sinceRecv >= limit
		}
		return silent
	})
	if got := s.Pending(1, c, limit); !got.Quiet() {
		t.Errorf("pending: %+v", got)
	}
}

// TestSettleNewOnes has connections of the new generation do all that would keep
// the old one from being quiet.
func TestSettleNewOnes(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0")
	fd := join(t, s)
	client := dialText(t, s.Addr())
	server := accept(t, fd)
	client.Write([]byte("request"))
	serve(t, s, 2, 0).stop()
	st := settle(t, s, long)
	st.looks(firstLooks + 1)
	dialText(t, s.Addr())
	dialText(t, s.Addr()).Write([]byte("request"))
	halfOpen(t, s)
	st.looks(settleLooks)
	exchange(t, server)
	st.ends(Unsettled{})
}

// TestSettleThereAndBack settles the new generation once the old one has all
// connections again.
func TestSettleThereAndBack(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0")
	serve(t, s, 1, 0)
	fd, err := s.Join(2, 0)
	must(t, err)
	defer fd.Close()
	settle(t, s, long).ends(Unsettled{})
	dialText(t, s.Addr())
	must(t, s.Cutover(1))
	open, err := Settle(t.Context(), []Bound{{Socket: s}}, 2, 20*time.Millisecond)
	if err != nil || open[0].Queued != 1 {
		t.Errorf("Settle returns %+v, %v; want the one that waits", open, err)
	}
	accept(t, fd).Write([]byte("answer"))
	open, err = Settle(t.Context(), []Bound{{Socket: s}}, 2, long)
	if err != nil || !open[0].Quiet() {
		t.Errorf("Settle returns %+v, %v", open, err)
	}
	// And back once more: what began on 1 meanwhile is on its way there.
	silent := dialText(t, s.Addr())
	eventually(t, "it was accepted", func() bool {
		c, err := TakeCensus([]Bound{{Socket: s}})
		must(t, err)
		return c.Accepted(silent)
	})
	must(t, s.Cutover(2))
	c, err := TakeCensus([]Bound{{Socket: s}})
	must(t, err)
	if got := s.Pending(1, c, long); got != (Unsettled{Young: 1}) {
		t.Errorf("pending: %+v", got)
	}
}

// A scripted socket is busy at those looks that have an x.
type scripted struct {
	Socket
	script string
	looks  int
}

func (s *scripted) Mode() Mode { return Steered }

func (s *scripted) Addr() string { return "" }

func (s *scripted) Pending(int, *Census, time.Duration) (u Unsettled) {
	if s.looks < len(s.script) && s.script[s.looks] == 'x' {
		u.Queued = 1
	}
	s.looks++
	return u
}

// TestSettleInARow counts the looks until several in a row find nothing.
func TestSettleInARow(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]int{"": 3, "x": 4, "  x": 6, " x x  x": 10} {
		s := &scripted{script: script}
		if open, err := Settle(t.Context(), []Bound{{Socket: s}}, 1, long); err != nil || !open[0].Quiet() || s.looks != want {
			t.Errorf("%q: %d looks, want %d; %+v, %v", script, s.looks, want, open, err)
		}
	}
}

func TestSettleCancelled(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0")
	join(t, s)
	dialText(t, s.Addr())
	serve(t, s, 2, 0)
	st := settle(t, s, long)
	st.looks(1)
	cause := errors.New("enough")
	st.cancel(cause)
	select {
	case <-st.done:
	case <-time.After(deadline):
		t.Fatal("Settle does not end with its context")
	}
	if st.err != cause || len(st.open) != 1 || st.open[0] != (Unsettled{Queued: 1, Young: 1}) {
		t.Errorf("Settle returns %+v, %v", st.open, st.err)
	}
}

// TestSettleMany has one of several sockets that is not quiet.
func TestSettleMany(t *testing.T) {
	t.Parallel()
	var specs []string
	for i := range fewPorts + 2 { // so many that the kernel is asked once for all
		specs = append(specs, fmt.Sprintf("s%d=tcp://127.0.0.1:0", i))
	}
	specs = append(specs, "v6=tcp://[::1]:0", "shared=tcp://127.0.0.1:0?mode=shared", "u=unix:"+abstract(t))
	all := mustOpenAll(t, OpenOptions{}, specs...)
	for _, b := range all {
		join(t, b.Socket)
		fd, err := b.Socket.Join(2, 0)
		must(t, err, fd.Close(), b.Socket.Cutover(2))
	}
	const busy = 3
	must(t, all[busy].Socket.Cutover(1))
	dialText(t, all[busy].Socket.Addr()).Write([]byte("request"))
	connect(t, all[len(all)-2].Socket.Addr())
	must(t, all[busy].Socket.Cutover(2))
	open, err := Settle(t.Context(), all, 1, 20*time.Millisecond)
	want := make([]Unsettled, len(all))
	want[busy] = Unsettled{Queued: 1, Unread: 1}
	if err != nil || fmt.Sprint(open) != fmt.Sprint(want) {
		t.Errorf("Settle returns %+v, %v; want %+v", open, err, want)
	}
}

// TestSettleWithoutDiag settles where the kernel does not tell about connections.
func TestSettleWithoutDiag(t *testing.T) {
	want := "waits: [{1 0 0 0}] ask the kernel for connections: socket NETLINK_SOCK_DIAG: permission denied\n" +
		"quiet: [{0 0 0 0}] ask the kernel for connections: socket NETLINK_SOCK_DIAG: permission denied"
	if got := runHelper(t, false, "no-diag"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
