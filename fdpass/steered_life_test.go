package fdpass

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSteeredReconfigure changes the backlog of every seat, and of those to come.
func TestSteeredReconfigure(t *testing.T) {
	t.Parallel()
	const spec = "a=tcp://127.0.0.1:0"
	s := mustSteer(t, spec+"?backlog=7")
	backlogs := func() (all []int) {
		for _, seat := range s.seats {
			_, limit, err := tcpQueue(seat.fd.Raw())
			must(t, err)
			all = append(all, limit)
		}
		return all
	}
	expect := func(want ...int) {
		t.Helper()
		if got := backlogs(); len(got) != len(want) || got[0] != want[0] || got[len(got)-1] != want[len(want)-1] {
			t.Errorf("backlogs %v, want %v", got, want)
		}
	}
	serve(t, s, 1, 0)
	serve(t, s, 2, 0)
	expect(7, 7)
	must(t, s.Reconfigure(mustParse(t, spec+"?backlog=9")))
	expect(9, 9)
	must(t, s.Cutover(2), s.Leave(1))
	serve(t, s, 3, 0)
	expect(9, 9)
	// A seat that its generation has shut down stays so, or it would be in the group
	// again, in another place.
	must(t, unix.Shutdown(s.seats[0].fd.Raw(), unix.SHUT_RDWR), s.Cutover(3))
	must(t, s.Reconfigure(mustParse(t, spec)))
	expect(Unknown, somaxconnNow(t))
	expectFrom(t, addressesOf(s)[0], 20, 3)
}

// TestSteeredStats adds up the seats.
func TestSteeredStats(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0?backlog=1")
	serve(t, s, 1, 0).stop()
	fill := func() (dropped int) { // with room for one the kernel takes two
		t.Helper()
		for range 2 {
			connect(t, s.Addr())
		}
		before := mustStats(t, s).Dropped
		third := startConnect(t, s.Addr())
		defer third.Close()
		eventually(t, "a SYN was dropped", func() bool { return mustStats(t, s).Dropped > before })
		return mustStats(t, s).Dropped
	}
	fill()
	two := serve(t, s, 2, 0)
	two.stop()
	must(t, s.Cutover(2))
	dropped := fill()
	if st := mustStats(t, s); st.Queue != 4 || st.QueueLimit != 1 {
		t.Errorf("with two full queues %+v", st)
	}
	// A generation may shut its own socket down; the other one's numbers stay.
	must(t, unix.Shutdown(s.seats[0].fd.Raw(), unix.SHUT_RDWR))
	if st := mustStats(t, s); st.Queue != 2 || st.Dropped < dropped {
		t.Errorf("with one of them shut down %+v", st)
	}
	must(t, s.Leave(1))
	if st := mustStats(t, s); st.Queue != 2 || st.QueueLimit != 1 || st.Dropped < dropped {
		t.Errorf("with one of them gone %+v, want no fewer than %d dropped", st, dropped)
	}
}

// TestHeirOfAShutdown has generations shut down the sockets that they were lent
// before they end. Their heirs get one that works, from either place of the group.
func TestHeirOfAShutdown(t *testing.T) {
	t.Parallel()
	var log logBuffer
	s := mustOpenAll(t, OpenOptions{Log: log.logger()}, "a=tcp://:0")[0].Socket.(*steered)
	expect := func(gen int) {
		t.Helper()
		for _, address := range addressesOf(s) {
			expectFrom(t, address, 20, gen)
		}
	}
	down := func(sv *service) {
		t.Helper()
		must(t, unix.Shutdown(sv.fd.Raw(), unix.SHUT_RDWR))
		<-sv.done
	}
	down(serve(t, s, 1, 0))
	two := serve(t, s, 2, 1)
	expect(2)
	serve(t, s, 3, 0)
	expect(2)
	down(two)
	serve(t, s, 4, 2)
	expect(4)
	expectDial(t, s, 3)
	expectDial(t, s, 4)
	must(t, s.Cutover(3))
	expect(3)
	must(t, s.Leave(4))
	expect(3)
	if n := strings.Count(log.String(), "has shut down the socket that it was lent"); n != 2 {
		t.Errorf("the log has %d lines about it:\n%s", n, log.String())
	}
}

// TestSteeredClose leaves the generations what they have, and the program that
// sorts their connections.
func TestSteeredClose(t *testing.T) {
	t.Parallel()
	for _, spec := range steeredSpecs {
		s := mustSteer(t, spec)
		one := serve(t, s, 1, 0)
		two := serve(t, s, 2, 0)
		must(t, s.Cutover(2), s.Close())
		for _, address := range addressesOf(s) {
			expectFrom(t, address, 50, 2)
		}
		for _, sv := range []*service{one, two} {
			if sockoptInt(t, sv.fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN) != 1 {
				t.Errorf("%s: Close shuts a socket down", spec)
			}
		}
	}
}

// TestSteeredRetire retires a socket with connections in two seats, both ways of
// keeping new ones away. One generation may leave meanwhile.
func TestSteeredRetire(t *testing.T) {
	t.Parallel()
	for _, spec := range steeredSpecs {
		for _, sink := range []bool{false, true} {
			s := mustSteer(t, spec)
			one := serve(t, s, 1, 0)
			one.stop()
			var clients []net.Conn
			waiting := func() {
				for _, address := range addressesOf(s) {
					for range 10 {
						clients = append(clients, dialText(t, "tcp://"+address))
					}
				}
			}
			waiting()
			two := serve(t, s, 2, 0)
			two.stop()
			must(t, s.Cutover(2))
			waiting()
			if sink {
				openASink(t, s)
			}
			result := retire(t, t.Context(), s)
			eventually(t, "connections are kept away", func() bool { return keepsAway(t, s) })
			for _, address := range addressesOf(s) {
				expectDropped(t, s, "tcp://"+address)
			}
			for _, sv := range []*service{one, two} {
				for range len(clients) / 2 {
					c := accept(t, sv.fd)
					go answer(c, sv.gen)
				}
				must(t, s.Leave(sv.gen))
				if sv == one {
					for _, address := range addressesOf(s) {
						expectDropped(t, s, "tcp://"+address)
					}
				}
			}
			for i, c := range clients {
				if gen, err := askOn(c); gen != 1+i*2/len(clients) || err != nil {
					t.Errorf("%s: client %d is answered by %d, %v", spec, i, gen, err)
				}
			}
			if err := waitRetired(t, result); err != nil {
				t.Errorf("%s: Retire: %v", spec, err)
			}
		}
	}
}

// TestSteeredRetireLeaves ends a socket whose generations are gone.
func TestSteeredRetireLeaves(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "a=tcp://127.0.0.1:0")
	serve(t, s, 1, 0).stop()
	connect(t, s.Addr())
	serve(t, s, 2, 0).stop()
	must(t, s.Cutover(2))
	connect(t, s.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	result := retire(t, ctx, s)
	eventually(t, "connections are kept away", func() bool { return keepsAway(t, s) })
	must(t, s.Forward(1), s.Leave(2), s.Leave(1)) // there is nobody to pass anything on to
	cancel()
	want := "socket a (" + s.Addr() + ") was closed while 2 connections waited in it: context canceled"
	if err := waitRetired(t, result); !errors.Is(err, context.Canceled) || err.Error() != want {
		t.Errorf("Retire: %v\nwant    %s", err, want)
	}
}

// TestSteeredLeaks goes through a hundred generations. It is not parallel, so that
// no other test opens a descriptor meanwhile.
func TestSteeredLeaks(t *testing.T) {
	s := mustSteer(t, "tcp://127.0.0.1:0")
	round := func(gen int) {
		fd, err := s.Join(gen, 0)
		must(t, err)
		defer fd.Close()
		must(t, s.Share(gen, 0.5), s.Share(gen, 0))
		if gen%10 == 5 {
			c, err := s.Dial(t.Context(), gen)
			must(t, err, c.Close())
		}
		must(t, s.Cutover(gen))
		if gen > 1 {
			must(t, s.Forward(gen-1), s.Leave(gen-1))
		}
		if gen%10 == 0 { // one that does not get ready
			other, err := s.Join(1000+gen, 0)
			must(t, err, other.Close(), s.Leave(1000+gen))
		}
	}
	round(1)
	before := openDescriptors()
	for gen := 2; gen <= 101; gen++ {
		round(gen)
	}
	if after := openDescriptors(); len(after) != len(before) {
		t.Errorf("%d descriptors are open, %d were: %v", len(after), len(before), newDescriptors(before, after))
	}
	must(t, s.Close())
}

// TestSteeredConcurrent calls what may be called at any time while the rest of the
// socket's life goes on.
func TestSteeredConcurrent(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0")
	bound := []Bound{{Socket: s}}
	var wg sync.WaitGroup
	for range 3 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				_, statsErr := s.Stats()
				_, seatsErr := s.Seats()
				c, err := TakeCensus(bound)
				if err != nil {
					t.Error(err)
				}
				s.Pending(1, c, time.Second)
				if errors.Is(statsErr, os.ErrClosed) {
					return
				}
				if err := errors.Join(statsErr, seatsErr); err != nil && !errors.Is(err, os.ErrClosed) {
					t.Error(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if c, err := s.Dial(ctx, 1); err == nil {
					c.Close()
				}
				cancel()
			}
		}()
	}
	for gen := 1; gen < 20; gen++ {
		fd, err := s.Join(gen, 0)
		must(t, err, fd.Close(), s.Share(gen, 0.5), s.Cutover(gen), s.Reconfigure(mustParse(t, "tcp://127.0.0.1:0?backlog=9")))
		if gen > 1 {
			must(t, s.Forward(gen-1), s.Leave(gen-1))
		}
	}
	must(t, s.Close())
	wg.Wait()
}

// A generation that has shut its seat down takes connections again once that is revived: the process that has it can accept them.
func TestRevive(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"127.0.0.1:0", "tcp6://[::1]:0", "tcp://:0"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			s := mustOpen(t, spec)
			old, err := s.Join(1, 0)
			must(t, err)
			defer old.Close()
			child, err := s.Join(2, 0)
			must(t, err)
			defer child.Close()
			must(t, s.Cutover(2))
			if was, err := s.Revive(2); was || err != nil {
				t.Errorf("one that listens: %v, %v", was, err)
			}
			for n := 1; n <= 2; n++ {
				must(t, unix.Shutdown(child.Raw(), unix.SHUT_RDWR))
				if err := s.Listening(2); !errors.Is(err, ErrShutDown) {
					t.Errorf("shut down: %v", err)
				}
				if was, err := s.Revive(2); !was || err != nil {
					t.Fatalf("one that does not: %v, %v", was, err)
				}
				must(t, s.Listening(2))
				for range 20 { // all to it, and not by chance
					echo(t, dialText(t, s.Addr()), accept(t, child), "hello")
				}
				if st := mustStats(t, s); st.Repaired != n {
					t.Errorf("%d repairs, after %d", st.Repaired, n)
				}
			}
		})
	}
}
