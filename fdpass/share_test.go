package fdpass

import (
	"math"
	"net"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// queues returns how many connections wait in the seats of generation 1 and 2.
func queues(t *testing.T, s Socket) (of1, of2 int) {
	t.Helper()
	seats, err := s.Seats()
	must(t, err)
	for _, seat := range seats {
		switch seat.Generation {
		case 1:
			of1 += seat.Queue
		case 2:
			of2 += seat.Queue
		}
	}
	return of1, of2
}

// scatter makes n connections and returns how many generation 2 has got. They are
// counted in the queues, and thrown away with a reset, which leaves no port in
// TIME-WAIT.
func scatter(t *testing.T, s Socket, n int, fds ...*FD) int {
	t.Helper()
	addresses := addressesOf(s)
	second := 0
	for done := 0; done < n; {
		batch := min(n-done, 500)
		for i := range batch {
			c, err := net.DialTimeout("tcp", addresses[i%len(addresses)], deadline)
			must(t, err, c.(*net.TCPConn).SetLinger(0), c.Close())
		}
		of1, of2 := queues(t, s)
		if of1+of2 != batch {
			t.Fatalf("%d and %d connections wait, not %d", of1, of2, batch)
		}
		done += batch
		second += of2
		for _, fd := range fds {
			for range max(of1, of2) {
				waiting, err := readable(fd.Raw())
				must(t, err)
				if !waiting {
					break
				}
				raw, _, err := unix.Accept4(fd.Raw(), unix.SOCK_CLOEXEC)
				must(t, err)
				unix.Close(raw)
			}
		}
	}
	return second
}

// TestShare counts how many of 20,000 connections go to the new generation. By
// chance the number is off by more than 6.2 standard deviations once in 10^9
// runs (two-sided; Bernstein's bound, which is above that of the normal
// distribution, adds a little for small shares).
func TestShare(t *testing.T) {
	t.Parallel()
	for spec, share := range map[string]float64{"tcp://127.0.0.1:0": 0.005, "tcp://:0": 0.25} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			s := mustSteer(t, spec)
			one, err := s.Join(1, 0)
			must(t, err)
			defer one.Close()
			two, err := s.Join(2, 0)
			must(t, err)
			defer two.Close()
			must(t, s.Share(2, share))
			const n = 20000
			got := float64(scatter(t, s, n, one, two))
			if bound := deviation(n, share, 1e-9); math.Abs(got-n*share) > bound {
				t.Errorf("of %d connections %v went to the new generation, want %v give or take %.0f", n, got, n*share, bound)
			}
			expectSeats(t, s, Seat{1, 1 - share, 0}, Seat{2, share, 0})
			must(t, s.Cutover(1))
			if got := scatter(t, s, 1000, one, two); got != 0 {
				t.Errorf("after Cutover(1) %d connections go to the new generation", got)
			}
			must(t, s.Share(2, share), s.Cutover(2))
			if got := scatter(t, s, 1000, one, two); got != 1000 {
				t.Errorf("after Cutover(2) %d of 1000 connections go to the new generation", got)
			}
		})
	}
}

// deviation returns how far the number of successes in n tries may be from what
// is expected, with a probability to be farther of less than p: Bernstein's
// inequality, solved for the distance.
func deviation(n int, share, p float64) float64 {
	variance := float64(n) * share * (1 - share)
	l := math.Log(2 / p)
	return l/3 + math.Sqrt(l*l/9+2*variance*l)
}

// TestShareEnds has everything that ends a share, from either place of the group.
func TestShareEnds(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0")
	address := addressesOf(s)[0]
	for gen := 1; gen <= 5; gen += 2 {
		serve(t, s, gen, 0)
		must(t, s.Cutover(gen))
		serve(t, s, gen+1, 0)
		must(t, s.Share(gen+1, 1))
		expectFrom(t, address, 50, gen+1)
		must(t, s.Leave(gen+1))
		expectFrom(t, address, 50, gen)
	}
	// A third one that comes while there is a share takes the canary's place.
	serve(t, s, 7, 0)
	must(t, s.Share(7, 1))
	serve(t, s, 8, 0)
	expectFrom(t, address, 50, 5)
	expectSeats(t, s, Seat{5, 1, 0}, Seat{8, 0, 0})
	must(t, s.Share(8, 1))
	expectFrom(t, address, 50, 8)
	expectSeats(t, s, Seat{5, 0, 0}, Seat{8, 1, 0})
	must(t, s.Leave(5)) // the one that the rest went to
	expectFrom(t, address, 50, 8)
	if err := s.Share(5, 0.5); err == nil {
		t.Error("a generation without a seat gets a share")
	}
	if err := s.Cutover(5); err == nil {
		t.Error("a generation without a seat gets all connections")
	}
}

// TestShareOfHeir has the generation with a share crash: its heir has the seat and
// the share.
func TestShareOfHeir(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0")
	serve(t, s, 1, 0)
	canary := serve(t, s, 2, 0)
	must(t, s.Share(2, 1))
	canary.stop()
	serve(t, s, 3, 2)
	for range 2 {
		expectSeats(t, s, Seat{1, 0, 0}, Seat{3, 1, 0})
		expectFrom(t, addressesOf(s)[0], 50, 3)
		expectDial(t, s, 1) // has the program made anew
	}
	must(t, s.Leave(3))
	expectFrom(t, addressesOf(s)[0], 50, 1)
}

// TestShareUnderLoad takes the canary away again and again while clients connect:
// each of them is answered.
func TestShareUnderLoad(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0")
	serve(t, s, 1, 0)
	clients := startCrowd(t, s, 4, func(address string) {
		if gen, err := ask(address); err != nil {
			t.Errorf("answered by %d, %v", gen, err)
		}
	})
	for gen := 2; gen < 40; gen++ {
		canary := serve(t, s, gen, 0)
		must(t, s.Share(gen, 0.9))
		eventually(t, "the canary has got a connection", func() bool { return canary.taken.Load() > 0 })
		clients.more(5)
		must(t, s.Leave(gen))
	}
	clients.stop()
	if st := mustStats(t, s); st.Lost != 0 {
		t.Errorf("at the end %+v", st)
	}
}

func expectSeats(t *testing.T, s Socket, want ...Seat) {
	t.Helper()
	if seats, err := s.Seats(); err != nil || !slices.Equal(seats, want) {
		t.Errorf("seats %+v, %v; want %+v", seats, err, want)
	}
}
