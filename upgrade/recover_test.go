package upgrade

import (
	"errors"
	"os"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// someBound opens sockets at ports that are free.
func someBound(t *testing.T, n int) []fdpass.Bound {
	t.Helper()
	specs := make([]fdpass.Spec, n)
	for i := range specs {
		specs[i] = fdpass.Spec{Name: string(rune('a' + i)), Network: fdpass.TCP, Address: "127.0.0.1:0"}
	}
	all, _, err := fdpass.Open(specs, fdpass.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, b := range all {
			b.Socket.Close()
		}
	})
	return all
}

// someSupervisor is one that has no generation, and tells nobody.
func someSupervisor() *Supervisor {
	return New(Options{Plan: &Plan{}, Manager: (*systemd.Notifier)(nil)})
}

// someGeneration is one whose process has ended.
func someGeneration(t *testing.T, number int, role Role, bound []fdpass.Bound) *generation {
	t.Helper()
	p := child.Remains(child.Adoption{Pid: 1 << 30, StartTime: 1})
	t.Cleanup(func() { p.Close() })
	return &generation{number: number, role: role, plan: &Plan{}, process: p, bound: bound, told: make(chan struct{}), parted: make(chan struct{})}
}

func isClosed(b fdpass.Bound) bool {
	_, err := b.Socket.Snapshot()
	return errors.Is(err, os.ErrClosed)
}

// A generation that drains while one of its sockets is closed already is written down in a way that can be read.
func TestSavedWithAClosedSocket(t *testing.T) {
	t.Parallel()
	s, bound := someSupervisor(), someBound(t, 3)
	g := someGeneration(t, 1, RoleDraining, bound)
	g.inodes = []uint64{11, 12, 13}
	s.number, s.generations[1] = 1, g
	if err := bound[1].Socket.Close(); err != nil {
		t.Fatal(err)
	}
	saved, _ := s.save()
	again, err := decodeSaved(encode(t, saved))
	if err != nil {
		t.Fatal(err)
	}
	got := again.Generations[0]
	if len(got.Bound) != 2 || got.Bound[1].Spec.Name != "c" || len(got.Inodes) != 2 || got.Inodes[0] != 11 || got.Inodes[1] != 13 {
		t.Errorf("%+v", got)
	}
}

// The sockets that only an interrupted handoff had are closed where a generation serves, and are the service's at a first start.
func TestSocketsOfAnInterruptedHandoff(t *testing.T) {
	t.Parallel()
	begin := func(live []savedBound) (*recovery, []fdpass.Bound) {
		s, bound := someSupervisor(), someBound(t, 2)
		saved := &Saved{Bound: live, Handoff: &savedHandoff{Bound: []savedBound{{0, bound[0].Spec}, {1, bound[1].Spec}}}}
		r := &recovery{s: s, saved: saved, sockets: []fdpass.Socket{bound[0].Socket, bound[1].Socket}, generations: map[int]*generation{}}
		s.bound = r.bound(saved.Bound)
		return r, bound
	}
	r, bound := begin([]savedBound{{Socket: 0}})
	r.s.live = someGeneration(t, 1, RoleLive, bound[:1])
	r.decide()
	if isClosed(bound[0]) || !isClosed(bound[1]) || len(r.s.bound) != 1 {
		t.Errorf("with a live generation: closed %t, %t; the service has %d", isClosed(bound[0]), isClosed(bound[1]), len(r.s.bound))
	}
	r, bound = begin(nil)
	r.settleSockets()
	if isClosed(bound[0]) || isClosed(bound[1]) || len(r.s.bound) != 2 {
		t.Errorf("at a first start: closed %t, %t; the service has %d", isClosed(bound[0]), isClosed(bound[1]), len(r.s.bound))
	}
}

// A socket that has left the configuration goes with the newest generation that has it, and with no other.
func TestRetiredAfterRecovery(t *testing.T) {
	t.Parallel()
	s, bound := someSupervisor(), someBound(t, 3)
	s.bound = bound[:1]
	for n, role := range map[int]Role{1: RoleDraining, 2: RoleDraining, 3: RoleLive} {
		s.generations[n] = someGeneration(t, n, role, bound[:2])
	}
	s.generations[1].bound, s.generations[3].bound = bound, bound[:1]
	(&recovery{s: s, saved: &Saved{}}).retire()
	for n, want := range map[int]string{1: "c", 2: "b", 3: ""} {
		got := ""
		for _, b := range s.generations[n].retired {
			got += b.Spec.Name
		}
		if got != want {
			t.Errorf("with generation %d goes %q, and not %q", n, got, want)
		}
	}
}
