package fdpass

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// expectDial dials a generation, which has to answer.
func expectDial(t *testing.T, s Socket, gen int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	c, err := s.Dial(ctx, gen)
	if err != nil {
		t.Errorf("dial %d: %v", gen, err)
		return
	}
	defer c.Close()
	if got, err := askOn(c); got != gen || err != nil {
		t.Errorf("dial %d: answered by %d, %v", gen, got, err)
	}
}

// expectNoProbes checks that the program says nothing about single connections.
func expectNoProbes(t *testing.T, s *steered) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.dialing) != 0 {
		t.Errorf("%d connections are left in the program", len(s.dialing))
	}
}

// TestDial reaches either generation at any time, from several goroutines at
// once, while clients load the socket and reach only the one that they should.
func TestDial(t *testing.T) {
	t.Parallel()
	for _, spec := range steeredSpecs {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			s := mustSteer(t, spec)
			serve(t, s, 1, 0)
			serve(t, s, 2, 0)
			var only atomic.Int64 // the generation that clients reach; 0 for either
			only.Store(1)
			clients := startCrowd(t, s, 2, func(address string) {
				want := only.Load()
				if got, err := ask(address); err != nil || want != 0 && only.Load() == want && int64(got) != want {
					t.Errorf("a client is answered by %d (%v), want %d", got, err, want)
				}
			})
			dialAll := func() {
				t.Helper()
				var dials sync.WaitGroup
				for i := range 4 {
					dials.Add(1)
					go func() {
						defer dials.Done()
						for j := range 25 {
							expectDial(t, s, 1+(i+j)%2)
						}
					}()
				}
				dials.Wait()
				clients.more(20)
			}
			dialAll()
			only.Store(0)
			must(t, s.Share(2, 0.5))
			dialAll()
			must(t, s.Cutover(2))
			only.Store(2)
			dialAll()
			expectNoProbes(t, s)
			must(t, s.Leave(1))
			for range 20 {
				expectDial(t, s, 2)
			}
		})
	}
}

// TestDialNeedsNoAccept shows that a connection waits in the seat of a generation
// that does not accept, and in no other one.
func TestDialNeedsNoAccept(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://:0")
	serve(t, s, 1, 0)
	fd, err := s.Join(2, 0)
	must(t, err)
	defer fd.Close()
	c, err := s.Dial(t.Context(), 2)
	must(t, err)
	expectSeats(t, s, Seat{1, 1, 0}, Seat{2, 0, 1})
	echo(t, c, accept(t, fd), "hello")
	must(t, c.Close(), s.Leave(2))
	expectNoProbes(t, s)
}

// TestDialRefused has generations that no connection can be made to.
func TestDialRefused(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0")
	serve(t, s, 1, 0)
	refuse := func(gen int) {
		t.Helper()
		c, err := s.Dial(t.Context(), gen)
		if err == nil {
			c.Close()
			t.Fatalf("generation %d, which has no seat, can be reached", gen)
		}
		if !strings.Contains(err.Error(), "has no socket on "+s.Addr()) {
			t.Errorf("dial %d: %v", gen, err)
		}
		expectNoProbes(t, s)
	}
	refuse(2)
	serve(t, s, 2, 0)
	expectDial(t, s, 2)
	must(t, s.Leave(2))
	refuse(2)
	expectDial(t, s, 1)
	must(t, s.Close())
	if c, err := s.Dial(t.Context(), 1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("dial a closed socket: %v, %v", c, err)
	}
}

// TestDialEndsWithContext dials a generation whose queue is full.
func TestDialEndsWithContext(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0?backlog=1")
	serve(t, s, 1, 0)
	fd, err := s.Join(2, 0)
	must(t, err)
	defer fd.Close()
	for range 2 {
		c, err := s.Dial(t.Context(), 2)
		must(t, err)
		defer c.Close()
	}
	dropped := mustStats(t, s).Dropped
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		c, err := s.Dial(ctx, 2)
		if err == nil {
			c.Close()
		}
		result <- err
	}()
	eventually(t, "its SYN was dropped", func() bool { return mustStats(t, s).Dropped > dropped })
	expectFrom(t, addressesOf(s)[0], 20, 1)
	cancel()
	// The dialer makes an error of its own of it.
	if err := <-result; err == nil || !strings.Contains(err.Error(), "operation was canceled") {
		t.Errorf("dial with a context that ended: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.dialing) != 2 {
		t.Errorf("%d connections are in the program, want the two that are open", len(s.dialing))
	}
}

// TestDialKeepsItsPort checks that a connection which has ended is out of the
// program before another client can have its port.
func TestDialKeepsItsPort(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0")
	serve(t, s, 1, 0)
	serveWith(t, s, 2, 0, func(c net.Conn) {}) // which closes first, so that the port is free at once
	c, err := s.Dial(t.Context(), 2)
	must(t, err)
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Fatalf("read %d, %v", n, err)
	}
	d := net.Dialer{LocalAddr: c.LocalAddr()}
	s.mu.Lock() // as if it took its time to change the program
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.Close()
	}()
	for range 50 {
		again, err := d.Dial("tcp", addressesOf(s)[0])
		if err == nil {
			again.Close()
			t.Error("another client has the port while the program still knows it")
			break
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			t.Error(err)
		}
		time.Sleep(time.Millisecond)
	}
	s.mu.Unlock()
	<-closed
}

// TestDialMany has as many connections open as may be: one more fails, and
// nothing else does.
func TestDialMany(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://[::1]:0")
	serve(t, s, 1, 0)
	fd, err := s.Join(2, 0)
	must(t, err)
	defer fd.Close()
	var open []net.Conn
	for range maxProbes {
		c, err := s.Dial(t.Context(), 2)
		must(t, err)
		defer c.Close()
		open = append(open, c)
	}
	want := "64 connections to single generations are open on " + s.Addr() + " already"
	if c, err := s.Dial(t.Context(), 2); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("one more: %v, %v; want %s", c, err, want)
	}
	expectFrom(t, addressesOf(s)[0], 20, 1)
	must(t, s.Share(2, 0.5), s.Cutover(1)) // in a longer program still
	for _, c := range open {
		must(t, c.Close())
	}
	expectNoProbes(t, s)
	must(t, s.Cutover(2))
}

// TestDialIsNoStraggler closes connections to a generation before it has accepted
// them: they are for nobody else. A client that has the port of one afterwards is.
func TestDialIsNoStraggler(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"tcp://127.0.0.1:0", "tcp://[::1]:0", "tcp://:0"} {
		s := mustSteer(t, spec)
		serve(t, s, 1, 0)
		serve(t, s, 2, 0).stop()
		c, err := s.Dial(t.Context(), 2)
		must(t, err, c.(*probeConn).Conn.(*net.TCPConn).SetLinger(0), c.Close())
		must(t, s.Cutover(2))
		d := net.Dialer{LocalAddr: c.LocalAddr()}
		client, err := d.Dial("tcp", c.RemoteAddr().String())
		must(t, err)
		defer client.Close()
		expectSeats(t, s, Seat{1, 0, 0}, Seat{2, 1, 2})
		must(t, s.Leave(2))
		if gen, err := askOn(client); gen != 1 || err != nil {
			t.Errorf("%s: answered by %d, %v", spec, gen, err)
		}
		if st := mustStats(t, s); st.Forwarded != 1 || st.Lost != 0 {
			t.Errorf("%s: %+v", spec, st)
		}
	}
}
