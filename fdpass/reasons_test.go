package fdpass

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A settling is one Settle that runs.
type settling struct {
	t      *testing.T
	s      *steered
	cancel context.CancelCauseFunc
	done   chan struct{}
	open   []Unsettled
	err    error
}

// settle turns the socket to generation 2 and starts Settle for generation 1.
func settle(t *testing.T, s *steered, limit time.Duration) *settling {
	t.Helper()
	must(t, s.Cutover(2))
	ctx, cancel := context.WithCancelCause(t.Context())
	st := &settling{t: t, s: s, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(st.done)
		st.open, st.err = Settle(ctx, []Bound{{Socket: s}}, 1, limit)
	}()
	t.Cleanup(func() {
		cancel(nil)
		<-st.done
	})
	return st
}

// looks waits until Settle has looked n more times, and has not returned.
func (st *settling) looks(n int) {
	st.t.Helper()
	want := st.count() + n
	eventually(st.t, "Settle looked", func() bool { return st.count() >= want || st.over() })
	if st.over() {
		st.t.Fatalf("Settle has returned: %+v, %v", st.open, st.err)
	}
}

func (st *settling) count() int {
	st.s.mu.Lock()
	defer st.s.mu.Unlock()
	return st.s.seatOf(1).looks
}

func (st *settling) over() bool {
	select {
	case <-st.done:
		return true
	default:
		return false
	}
}

// ends waits for Settle to return, with this left.
func (st *settling) ends(want Unsettled) {
	st.t.Helper()
	select {
	case <-st.done:
	case <-time.After(deadline):
		st.t.Fatal("Settle does not return")
	}
	if st.err != nil || len(st.open) != 1 || st.open[0] != want {
		st.t.Errorf("Settle returns %+v, %v; want %+v", st.open, st.err, want)
	}
}

// A reason is one thing that keeps a generation from being quiet. begin makes it
// before the cutover and returns what ends it.
type reason struct {
	spec  string
	begin func(t *testing.T, s *steered, fd *FD) (end func())
	open  Unsettled
}

const long = time.Hour // a limit that is not to be reached

var reasons = map[string]reason{
	"queued": {
		begin: func(t *testing.T, s *steered, fd *FD) func() {
			dialText(t, s.Addr())
			return func() { accept(t, fd).Write([]byte("answer")) }
		},
		open: Unsettled{Queued: 1, Young: 1},
	},
	"queued with a request": {
		begin: func(t *testing.T, s *steered, fd *FD) func() {
			dialText(t, s.Addr()).Write([]byte("request"))
			return func() { exchange(t, accept(t, fd)) }
		},
		open: Unsettled{Queued: 1, Unread: 1},
	},
	"handshake": {
		spec: "?defer-accept=60s",
		begin: func(t *testing.T, s *steered, fd *FD) func() {
			c := dialText(t, s.Addr())
			return func() {
				c.Write([]byte("request"))
				exchange(t, accept(t, fd))
			}
		},
		open: Unsettled{Handshakes: 1},
	},
	"half-open": {
		begin: func(t *testing.T, s *steered, fd *FD) func() {
			client := halfOpen(t, s)
			return func() {
				must(t, client.hear())
				accept(t, fd).Write([]byte("answer"))
			}
		},
		open: Unsettled{Handshakes: 1},
	},
	"handshake that is given up": {
		begin: func(t *testing.T, s *steered, fd *FD) func() {
			client := halfOpen(t, s)
			return func() { client.fd.Close() } // which is told when the socket answers again
		},
		open: Unsettled{Handshakes: 1},
	},
	"young": {
		begin: func(t *testing.T, s *steered, fd *FD) func() {
			dialText(t, s.Addr())
			c := accept(t, fd)
			return func() { c.Write([]byte("answer")) }
		},
		open: Unsettled{Young: 1},
	},
	"young that ends": {
		begin: func(t *testing.T, s *steered, fd *FD) func() {
			client := dialText(t, s.Addr())
			accept(t, fd)
			return func() {
				client.(*net.TCPConn).SetLinger(0)
				client.Close()
			}
		},
		open: Unsettled{Young: 1},
	},
	"unread": {
		begin: func(t *testing.T, s *steered, fd *FD) func() {
			c := dialText(t, s.Addr())
			server := accept(t, fd)
			c.Write([]byte("request"))
			exchange(t, server)
			readText(t, c, "answer")
			c.Write([]byte("request"))
			return func() { exchange(t, server) }
		},
		open: Unsettled{Unread: 1},
	},
	"unread and half-closed": {
		begin: func(t *testing.T, s *steered, fd *FD) func() {
			c := dialText(t, s.Addr())
			server := accept(t, fd)
			c.Write([]byte("request"))
			c.(*net.TCPConn).CloseWrite()
			return func() { exchange(t, server) }
		},
		open: Unsettled{Unread: 1},
	},
	"first answer": {
		begin: func(t *testing.T, s *steered, fd *FD) func() {
			c := dialText(t, s.Addr())
			server := accept(t, fd)
			c.Write([]byte("request"))
			readText(t, server, "request")
			return func() { server.Write([]byte("answer")) }
		},
		open: Unsettled{Young: 1},
	},
	"first answer to a half-closed one": {
		begin: func(t *testing.T, s *steered, fd *FD) func() {
			c := dialText(t, s.Addr())
			server := accept(t, fd)
			c.Write([]byte("request"))
			c.(*net.TCPConn).CloseWrite()
			readText(t, server, "request")
			if n, err := server.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("read %d, %v", n, err)
			}
			return func() { server.Write([]byte("answer")) }
		},
		open: Unsettled{Young: 1},
	},
}

func readText(t *testing.T, c net.Conn, want string) {
	t.Helper()
	c.SetDeadline(time.Now().Add(deadline))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Errorf("read %q, %v; want %q", got, err, want)
	}
}

// exchange reads the request and answers it.
func exchange(t *testing.T, server net.Conn) {
	t.Helper()
	readText(t, server, "request")
	server.Write([]byte("answer"))
}

// A quietClient does not hear what the socket answers, so that its handshake
// stays open: the packets that come have less than the time to live that it wants.
type quietClient struct {
	fd *FD
	v6 bool
}

// halfOpen begins a connection and waits until the socket has answered.
func halfOpen(t *testing.T, s Socket) quietClient {
	t.Helper()
	address := addressesOf(s)[0]
	sa, family, err := target{addr: mustAddrPort(t, address)}.sockaddr()
	must(t, err)
	fd, err := Spec{Network: TCP, NonBlocking: true}.newSocket(family)
	must(t, err)
	t.Cleanup(func() { fd.Close() })
	q := quietClient{fd, family == unix.AF_INET6}
	must(t, q.minimum(255))
	if err := unix.Connect(fd.Raw(), sa); err != unix.EINPROGRESS {
		t.Fatalf("connect: %v", err)
	}
	eventually(t, "the handshake began", func() bool { return handshakes(t, s) > 0 })
	return q
}

func handshakes(t *testing.T, s Socket) int {
	t.Helper()
	c, err := TakeCensus([]Bound{{Socket: s}})
	must(t, err)
	at := reachesOf(s)[0]
	n := 0
	for conn := range c.to(at) {
		if conn.handshake() {
			n++
		}
	}
	return n
}

func (q quietClient) minimum(hops int) error {
	if q.v6 {
		return unix.SetsockoptInt(q.fd.Raw(), unix.IPPROTO_IPV6, unix.IPV6_MINHOPCOUNT, hops)
	}
	return unix.SetsockoptInt(q.fd.Raw(), unix.IPPROTO_IP, unix.IP_MINTTL, hops)
}

// hear has the handshake go on with the next packet that either side sends again,
// which is within a second.
func (q quietClient) hear() error { return q.minimum(0) }
