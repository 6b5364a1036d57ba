package standalone

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// Services that let go of their sockets late, or not at all, and whose ends overlap; ones whose processes share a socket. Nothing is
// lost on a new connection, and no address ever has more than two sockets, the shares of which make a whole.
func TestOverlappingDrains(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		flags []string
		three bool // three generations are there at the same time
	}{
		{"goes on accepting", []string{"-go-on=4s"}, true},
		{"keeps its listener open", []string{"-hold-open=4s"}, true},
		{"goes on accepting for a moment", []string{"-go-on=300ms"}, false},
		{"has workers", []string{"-workers=3"}, false},
		{"has workers that go on", []string{"-workers=2", "-go-on=4s"}, true},
		{"has workers that outlive it", []string{"-workers=3", "-outlive", "-go-on=500ms"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			three := false
			passage{
				service:  func(version string) configuration { return tested(version, tc.flags...) },
				handoffs: 6,
				watch: func(st *control.Status) {
					three = three || len(st.Generations) >= 3 && live(st) != nil
					mustBeWhole(t, st)
				},
			}.mustBeClean(t)
			if tc.three && !three {
				t.Error("three generations were never there at the same time")
			}
		})
	}
}

// mustBeWhole fails the test if a steered socket's seats are not as they always have to be.
func mustBeWhole(t *testing.T, st *control.Status) {
	t.Helper()
	for _, socket := range st.Sockets {
		const most = 2
		if n := len(socket.Seats); n < 1 || n > most {
			t.Errorf("socket %s has %d seats at step %s: %+v", socket.Name, n, st.Phase, socket.Seats)
		}
		sum, seen := 0.0, make(map[int]bool)
		for _, seat := range socket.Seats {
			if seen[seat.Generation] {
				t.Errorf("generation %d has two seats: %+v", seat.Generation, socket.Seats)
			}
			seen[seat.Generation] = true
			sum += seat.Share
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("the shares of socket %s make %g at step %s: %+v", socket.Name, sum, st.Phase, socket.Seats)
		}
		if socket.Lost > 0 {
			t.Errorf("socket %s has lost %d connections", socket.Name, socket.Lost)
		}
	}
}

// Long requests of three generations at the same time are all answered, each by its own.
func TestLongRequestsOverlap(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	over := filepath.Join(t.TempDir(), "over")
	versions := []string{"v0", "v1", "v2", "v3"}
	var slow []<-chan string
	for i, version := range versions {
		if i > 0 {
			s.reloadTo(tested(version)).must()
		}
		slow = append(slow, s.askSlowly(version, over))
	}
	st := s.draining(3, 1)
	for i, g := range st.Generations {
		if role := []upgrade.Role{upgrade.RoleDraining, upgrade.RoleDraining, upgrade.RoleDraining, upgrade.RoleLive}[i]; g.Role != role || g.Connections != 1 {
			t.Errorf("generation %d: %+v", g.Number, g)
		}
	}
	if err := os.WriteFile(over, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, answer := range slow {
		if got := <-answer; got != versions[i] {
			t.Errorf("%s was asked, and %s", versions[i], got)
		}
	}
	s.settled()
}

// askSlowly asks on a connection of a version for something that is answered once a file is there.
func (s *supervisor) askSlowly(version, file string) <-chan string {
	s.t.Helper()
	k := s.keep(version)
	answer := make(chan string, 1)
	go func() {
		got, err := k.ask("/?wait=" + file)
		if err != nil {
			got = err.Error()
		}
		answer <- got
	}()
	return answer
}
