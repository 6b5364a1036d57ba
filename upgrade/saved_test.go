package upgrade

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// someSaved is a state as a supervisor might leave it in the middle of a handoff.
func someSaved() *Saved {
	return &Saved{
		Version: savedVersion, Boot: bootID(), Phase: Warming.String(), Number: 2, Live: 1, Plan: json.RawMessage(`{"x":1}`),
		Sockets: []fdpass.Snapshot{{Spec: fdpass.Spec{Network: fdpass.TCP, Address: "127.0.0.1:80"}, Mode: fdpass.Steered, Target: 1,
			Parts: []fdpass.Part{{ID: "zdd-1", Inode: 5, Generation: 1}}}},
		Bound: []savedBound{{Socket: 0}},
		Generations: []savedGeneration{
			{Number: 1, Role: RoleLive, PID: 100, StartTime: 7, Bound: []savedBound{{}}, Inodes: []uint64{5}},
			{Number: 2, Role: RoleNew, PID: 101, StartTime: 8, Bound: []savedBound{}, Inodes: []uint64{}},
		},
		Handoff: &savedHandoff{New: 2, Bound: []savedBound{{Socket: 0}}, Record: Record{Kind: KindDeploy}, Pointed: &savedPointing{From: "v1", To: "v2"}},
	}
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode(t testing.TB, b []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatal(err)
	}
}

func TestSavedRoundTrip(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.json")
	if s, err := LoadSaved(path); s != nil || err != nil {
		t.Errorf("no file: %v, %v", s, err)
	}
	want := encode(t, someSaved())
	if err := writeSaved(path, want); err != nil {
		t.Fatal(err)
	}
	s, err := LoadSaved(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := encode(t, s); string(got) != string(want) {
		t.Errorf("read:\n%s\nwritten:\n%s", got, want)
	}
	if !s.HasService() || s.Stopping() || string(s.LivePlan()) != `{"x":1}` {
		t.Errorf("%+v", s)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("more than the file is left: %v, %v", entries, err)
	}
}

// A supervisor that did not know of releases has left nothing about them, and is followed all the same.
func TestSavedWithoutReleases(t *testing.T) {
	t.Parallel()
	old := someSaved()
	old.Handoff.Pointed, old.Handoff.Record.Kind = nil, ""
	b := encode(t, old)
	for _, field := range []string{`"pointed"`, `"kind"`} {
		if strings.Contains(string(b), field) {
			t.Errorf("%s is in %s", field, b)
		}
	}
	if s, err := decodeSaved(b); err != nil || s.Handoff.Pointed != nil || s.Handoff.New != 2 {
		t.Errorf("%+v, %v", s, err)
	}
}

// What no supervisor of this version and this boot has written is not acted on.
func TestSavedRefused(t *testing.T) {
	t.Parallel()
	whole := string(encode(t, someSaved()))
	change := func(f func(*Saved)) string {
		s := someSaved()
		f(s)
		return string(encode(t, s))
	}
	for name, text := range map[string]string{
		"empty":                   "",
		"garbage":                 "\x00\xff\x00garbage",
		"of another kind":         `["a"]`,
		"cut off":                 whole[:len(whole)/2],
		"newer":                   strings.Replace(whole, `"version":1`, `"version":2`, 1),
		"of no version":           strings.Replace(whole, `"version":1`, `"version":0`, 1),
		"of another boot":         change(func(s *Saved) { s.Boot = "another" }),
		"of an unknown phase":     change(func(s *Saved) { s.Phase = "dance" }),
		"with process 1":          change(func(s *Saved) { s.Generations[0].PID = 1 }),
		"with a negative process": change(func(s *Saved) { s.Generations[0].PID = -1 }),
		"without a start time":    change(func(s *Saved) { s.Generations[0].StartTime = 0 }),
		"with a generation twice": change(func(s *Saved) { s.Generations[1].Number = 1 }),
		"with a later generation": change(func(s *Saved) { s.Generations[1].Number = 3 }),
		"with no live generation": change(func(s *Saved) { s.Live = 9; s.Number = 9 }),
		"with no new generation":  change(func(s *Saved) { s.Handoff.New = 9; s.Number = 9 }),
		"with a socket too many":  change(func(s *Saved) { s.Bound[0].Socket = 1 }),
		"with a negative socket":  change(func(s *Saved) { s.Handoff.Bound[0].Socket = -1 }),
		"with an inode too few":   change(func(s *Saved) { s.Generations[0].Inodes = nil }),
		"with a cgroup elsewhere": change(func(s *Saved) { s.Generations[0].Cgroup = "../other" }),
	} {
		path := filepath.Join(t.TempDir(), "state.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := LoadSaved(path); !errors.Is(err, ErrSaved) || s != nil {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

func FuzzSaved(f *testing.F) {
	f.Add(encode(f, someSaved()))
	f.Add([]byte(`{"version":1,"phase":"idle"}`))
	f.Add([]byte(`{"version":1,"phase":"soak","handoff":{"new":1,"bound":[{"socket":0}]},"generations":[{"number":1,"pid":2}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeSaved(b)
		if err != nil {
			if s != nil || !errors.Is(err, ErrSaved) {
				t.Fatalf("%v, %v", s, err)
			}
			return
		}
		// What is accepted can be used without a second look, and written again.
		for _, g := range s.Generations {
			for i, b := range g.Bound {
				_, _ = s.Sockets[b.Socket], g.Inodes[i]
			}
		}
		if _, err := decodeSaved(encode(t, s)); err != nil {
			t.Fatalf("written again, it is refused: %v", err)
		}
	})
}
