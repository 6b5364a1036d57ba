package fdpass

import (
	"sync/atomic"
	"testing"
)

// TestSteer moves new connections from one generation to the next and counts
// where they arrive, all of them.
func TestSteer(t *testing.T) {
	t.Parallel()
	for _, spec := range steeredSpecs {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			s := mustSteer(t, spec)
			addresses := addressesOf(s)
			const each = 250
			total := int64(each * len(addresses))
			one := serve(t, s, 1, 0)
			two := serve(t, s, 2, 0)
			for _, address := range addresses {
				expectFrom(t, address, each, 1)
			}
			must(t, s.Cutover(2))
			for _, address := range addresses {
				expectFrom(t, address, each, 2)
			}
			// The way back.
			must(t, s.Cutover(1))
			for _, address := range addresses {
				expectFrom(t, address, each, 1)
			}
			must(t, s.Cutover(2), s.Leave(1))
			for _, address := range addresses {
				expectFrom(t, address, each, 2)
			}
			if got := [2]int64{one.taken.Load(), two.taken.Load()}; got != [2]int64{2 * total, 2 * total} {
				t.Errorf("the generations have accepted %d connections, want %d each", got, 2*total)
			}
		})
	}
}

// TestSteerGenerations goes through ten generations on one socket, in every order
// of leaving and joining, with the processes of the old ones still there and
// ready to accept.
func TestSteerGenerations(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]func(gen int) bool{
		"leave first": func(int) bool { return true },
		"join first":  func(int) bool { return false },
		"alternating": func(gen int) bool { return gen%2 == 0 },
		"mixed":       func(gen int) bool { return gen%3 == 0 },
	} {
		for _, spec := range []string{"tcp://127.0.0.1:0", "tcp://:0"} {
			t.Run(name+" "+spec, func(t *testing.T) {
				t.Parallel()
				s := mustSteer(t, spec)
				expect := func(gen int) {
					t.Helper()
					for _, address := range addressesOf(s) {
						expectFrom(t, address, 10, gen)
					}
				}
				serve(t, s, 1, 0)
				expect(1)
				for gen := 2; gen <= 11; gen++ {
					serve(t, s, gen, 0)
					expect(gen - 1)
					must(t, s.Cutover(gen))
					expect(gen)
					if early(gen) {
						must(t, s.Leave(gen-1))
						expect(gen)
					}
				}
				if st := mustStats(t, s); st.Forwarded != 0 || st.Lost != 0 || st.Queue != 0 {
					t.Errorf("at the end %+v", st)
				}
			})
		}
	}
}

// TestSteerRollback has new generations leave that never got ready, before and
// after a cutover, from either place of the group.
func TestSteerRollback(t *testing.T) {
	t.Parallel()
	for _, spec := range steeredSpecs {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			s := mustSteer(t, spec)
			expect := func(gen int) {
				t.Helper()
				for _, address := range addressesOf(s) {
					expectFrom(t, address, 20, gen)
				}
			}
			serve(t, s, 1, 0)
			serve(t, s, 2, 0)
			must(t, s.Leave(2))
			expect(1)
			serve(t, s, 3, 0)
			must(t, s.Cutover(3))
			expect(3)
			must(t, s.Leave(3)) // 1 was not told to stop
			expect(1)
			serve(t, s, 4, 0)
			must(t, s.Cutover(4), s.Leave(1))
			serve(t, s, 5, 0)
			must(t, s.Cutover(5), s.Cutover(4), s.Leave(5))
			expect(4)
			serve(t, s, 6, 0)
			must(t, s.Cutover(6))
			expect(6)
			must(t, s.Leave(99)) // who never had a seat
			expect(6)
		})
	}
}

// TestSteerUnderLoad has clients connect all the time: none gets to the new
// generation before Cutover, none to the old one that began after it.
func TestSteerUnderLoad(t *testing.T) {
	t.Parallel()
	for _, spec := range steeredSpecs {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			s := mustSteer(t, spec)
			var begun, over atomic.Int64 // the newest generation whose cutover has begun, and is over
			begun.Store(1)
			over.Store(1)
			serve(t, s, 1, 0)
			l := startCrowd(t, s, 6, func(address string) {
				from := over.Load()
				gen, err := ask(address)
				if to := begun.Load(); err != nil || int64(gen) < from || int64(gen) > to {
					t.Errorf("answered by %d (%v), not by one of %d to %d", gen, err, from, to)
				}
			})
			for gen := 2; gen <= 6; gen++ {
				l.more(50)
				next := serve(t, s, gen, 0)
				l.more(200)
				if n := next.taken.Load(); n != 0 {
					t.Errorf("generation %d has got %d connections before the cutover", gen, n)
				}
				begun.Store(int64(gen))
				must(t, s.Cutover(gen))
				over.Store(int64(gen))
				l.more(200)
				must(t, s.Leave(gen-1))
			}
			l.stop()
			if st := mustStats(t, s); st.Lost != 0 {
				t.Errorf("at the end %+v", st)
			}
		})
	}
}
