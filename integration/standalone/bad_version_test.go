package standalone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
)

// Whatever is wrong with the new version, the handoff fails when it happens, with a reason that a person can act on; the
// old version, the very same process, serves on; nothing is left of the new one; and the next good handoff works.
func TestBadVersions(t *testing.T) {
	t.Parallel()
	files := t.TempDir()
	script := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(files, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	notExecutable := script("not-executable", "#!/bin/sh\n", 0o644)
	badInterpreter := script("bad-interpreter", "#!/no/such/interpreter\n", 0o755)
	empty := script("empty", "", 0o755)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const readyTimeout = 3 * time.Second
	for _, tc := range []struct {
		name    string
		bad     configuration
		reasons []string
		atLeast time.Duration
		atMost  time.Duration
	}{
		{"exits at once", configuration{mode: "bad:exit"}, []string{"exit status 7", "before it was ready"}, 0, readyTimeout},
		{"exits after two seconds", configuration{mode: "bad:exit-late"}, []string{"exit status 7"}, 2 * time.Second, readyTimeout},
		{"dies by a signal", configuration{mode: "bad:segv"}, []string{"SIGKILL"}, 0, readyTimeout},
		{"is missing", configuration{command: []string{"/no/such/service"}}, []string{"/no/such/service", "no such file"}, 0, time.Second},
		{"is missing in PATH", configuration{command: []string{"no-such-service"}}, []string{"no-such-service", "PATH"}, 0, time.Second},
		{"is not executable", configuration{command: []string{notExecutable}}, []string{notExecutable, "not executable"}, 0, time.Second},
		{"has no interpreter", configuration{command: []string{badInterpreter}}, []string{badInterpreter, "/no/such/interpreter"}, 0, time.Second},
		{"is no program", configuration{command: []string{empty}}, []string{empty}, 0, time.Second},
		{"is a directory", configuration{command: []string{files}}, []string{files, "directory"}, 0, time.Second},
		{"never gets ready", configuration{mode: "bad:mute"}, []string{"READY=1", "3s"}, readyTimeout, 2 * readyTimeout},
		{"closes its sockets", configuration{mode: "bad:close"}, []string{"READY=1"}, readyTimeout, 2 * readyTimeout},
		{"daemonizes", configuration{mode: "bad:daemon"}, []string{"exit status 0", "foreground"}, 0, readyTimeout},
		{"is behind a shell that stays", configuration{mode: "bad:exit", command: []string{"/bin/sh", "-c", self + "; true"}},
			[]string{"exit status 0", "foreground"}, 0, readyTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			limits := "[ready]\ntimeout = \"3s\"\n[drain]\ntimeout = \"1s\"\n"
			good := configuration{mode: "good", sockets: limits + "[[socket]]\nname = \"main\"\nlisten = \"tcp://127.0.0.1:0\"\n"}
			s := start(t, good)
			before, descriptors := s.settled(), s.descriptors()
			tc.bad.sockets = good.sockets
			tc.bad.write(t, s.dir)

			began := time.Now()
			status, _, stderr := s.reload()
			took := time.Since(began)
			if status != 1 {
				t.Errorf("exit status %d", status)
			}
			for _, reason := range tc.reasons {
				if !strings.Contains(stderr, reason) {
					t.Errorf("%q is not in the reason: %s", reason, stderr)
				}
			}
			// The machine may be busy, and so the upper bound is generous; that it is not the time limit is what counts.
			if slack := 2 * time.Second; took < tc.atLeast || took > tc.atMost+slack {
				t.Errorf("took %s, want %s to %s", took, tc.atLeast, tc.atMost)
			}
			if after := s.settled(); after.PID != before.PID {
				t.Errorf("pid %d serves, before it was %d", after.PID, before.PID)
			}
			if r := s.ask("tcp", s.address()); r.PID != before.PID {
				t.Errorf("pid %d answers", r.PID)
			}
			if z := s.zombies(); len(z) > 0 {
				t.Errorf("zombies: %v", z)
			}
			if n := s.descriptors(); n > descriptors+1 { // the connection that asks for the status
				t.Errorf("%d descriptors, before it were %d", n, descriptors)
			}
			good.mode = "better"
			good.write(t, s.dir)
			if status, _, stderr := s.reload(); status != 0 {
				t.Errorf("the next good handoff: exit status %d, %s", status, stderr)
			}
			s.settled()
			if r := s.ask("tcp", s.address()); r.Version != "better" {
				t.Errorf("%s answers", r.Version)
			}
		})
	}
}

// A service whose version is broken for a while is started again and again with the socket open, and clients that wait
// are served once it is repaired; nobody has to act.
func TestRepairedByItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	wrapper := filepath.Join(dir, "service")
	write := func(text string) {
		if err := os.WriteFile(wrapper+".new", []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(wrapper+".new", wrapper); err != nil {
			t.Fatal(err)
		}
	}
	write("exit 1")
	s := launch(t, configuration{mode: "good", command: []string{wrapper}})
	s.until("a few attempts", func(st *control.Status) bool { return st.Handoffs >= 4 && len(st.Sockets) == 1 })
	answered := make(chan report, 1)
	address := s.address()
	go func() { answered <- s.ask("tcp", address) }()
	write("exec " + self)
	select {
	case r := <-answered:
		if r.Version != "good" {
			t.Errorf("%s answers", r.Version)
		}
	case <-time.After(20 * time.Second):
		t.Error("the client that waited was not served")
	}
}

// 300 handoffs, half of them failing: the supervisor keeps nothing of them. (Fewer with the race detector.)
func TestNothingGrows(t *testing.T) {
	t.Parallel()
	s := start(t, configuration{mode: "good"})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	round := func(n int) {
		for i := range n {
			c, want := configuration{mode: "good", command: []string{self}}, 0
			if i%2 == 1 {
				c.command, want = []string{"/bin/false"}, 1
			}
			c.write(t, s.dir)
			if status, _, stderr := s.reload(); status != want {
				t.Fatalf("handoff %d: exit status %d: %s", i, status, stderr)
			}
		}
		s.settled()
	}
	first, rest := 60, 240
	if racing {
		first, rest = 10, 30 // its memory is not ours to judge, and it takes ten times as long
	}
	round(first) // the heap and the pools have found their size
	descriptors, resident := s.descriptors(), s.resident()
	round(rest)
	t.Logf("resident %d KiB after %d handoffs, %d KiB after %d", resident, first, s.resident(), first+rest)
	if n := s.descriptors(); n > descriptors+1 {
		t.Errorf("%d descriptors, %d after the first %d handoffs", n, descriptors, first)
	}
	// Pages come and go; a leak of a few KiB a handoff would be more than this.
	if n := s.resident(); n > resident+1500 && !racing {
		t.Errorf("%d KiB resident, %d KiB after the first %d handoffs", n, resident, first)
	}
	if z := s.zombies(); len(z) > 0 {
		t.Errorf("zombies: %v", z)
	}
}
