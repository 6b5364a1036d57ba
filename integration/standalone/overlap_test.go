package standalone

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
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
		until string // a flag for how long a version goes on: until it is one of three
	}{
		{"goes on accepting", nil, "-go-on"},
		{"keeps its listener open", nil, "-hold-open"},
		{"goes on accepting for a moment", []string{"-go-on=300ms"}, ""},
		{"has workers", []string{"-workers=3"}, ""},
		{"has workers that go on", []string{"-workers=2"}, "-go-on"},
		{"has workers that outlive it", []string{"-workers=3", "-outlive", "-go-on=500ms"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const handoffs = 6
			dir := t.TempDir()
			over := func(version string) string { return filepath.Join(dir, version) }
			three := make(map[int]bool) // the oldest ones of three
			passage{
				service: func(version string) configuration {
					flags := tc.flags
					if tc.until != "" {
						flags = append(slices.Clone(flags), tc.until+"="+over(version))
					}
					return tested(version, flags...)
				},
				handoffs: handoffs,
				watch: func(st *control.Status) {
					mustBeWhole(t, st)
					current := live(st)
					if current == nil || st.Generations[0].Number == current.Number {
						return
					}
					oldest := st.Generations[0]
					switch {
					case len(st.Generations) >= 3:
						three[oldest.Number] = true
					case current.Number <= handoffs:
						return // the next one is still to come
					}
					if err := os.WriteFile(over(fmt.Sprintf("v%d", oldest.Number-1)), nil, 0o600); err != nil {
						t.Error(err)
					}
				},
			}.mustBeClean(t)
			if tc.until != "" && len(three) < handoffs-1 {
				t.Errorf("three generations were there at the same time only when these were the oldest ones: %v", three)
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
