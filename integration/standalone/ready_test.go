package standalone

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
)

// Each way to say that one is ready, with a service that does not speak sd_notify; and what the reason says when it does not.
func TestReadySignals(t *testing.T) {
	t.Parallel()
	const wait = "; trap 'exit 0' TERM; while :; do sleep 0.1; done"
	for _, tc := range []struct {
		name      string
		good, bad string // shell
		by        string // TOML
		reason    string
		notBefore time.Duration
	}{
		{name: "fd", good: "sleep 0.3; echo >&{fd:ready}" + wait, bad: "true" + wait, by: "by = \"fd\"\n", reason: "ready.by = \"fd\"", notBefore: 300 * time.Millisecond},
		{name: "exec", good: "sleep 0.3; touch $READY_FILE" + wait, bad: "true" + wait,
			by: "by = \"exec\"\ncommand = [\"/bin/sh\", \"-c\", \"test -e $READY_FILE || exit 9\"]\ninterval = \"50ms\"\n", reason: "exit status 9", notBefore: 300 * time.Millisecond},
		{name: "delay", good: "true" + wait, bad: "sleep 0.1; exit 5", by: "by = \"delay\"\ndelay = \"500ms\"\n", reason: "exit status 5", notBefore: 500 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			c := func(script string, n int) configuration {
				ready := filepath.Join(dir, fmt.Sprint(n))
				return configuration{command: []string{"/bin/sh", "-c", "READY_FILE=" + ready + "; " + script},
					sockets: "[[socket]]\nlisten = \"tcp://127.0.0.1:0\"\n[ready]\ntimeout = \"2s\"\n" + strings.ReplaceAll(tc.by, "$READY_FILE", ready)}
			}
			s := start(t, c(tc.good, 1))
			before := s.settled()
			began := time.Now()
			c(tc.good, 2).write(t, s.dir)
			if status, _, stderr := s.reload(); status != 0 {
				t.Errorf("reload: %s", stderr)
			}
			if took := time.Since(began); took < tc.notBefore {
				t.Errorf("it was taken for ready after %s", took)
			}
			after := s.settled()
			if after.PID == before.PID {
				t.Error("the old version serves on")
			}
			c(tc.bad, 3).write(t, s.dir)
			status, _, stderr := s.reload()
			if status != 1 || !strings.Contains(stderr, tc.reason) {
				t.Errorf("exit status %d, want %q in: %s", status, tc.reason, stderr)
			}
			if last := s.settled(); last.PID != after.PID {
				t.Error("the failed handoff has changed what serves")
			}
		})
	}
}

// A service behind a shell that execs it, or behind env, is the same process: LISTEN_PID is right.
func TestExecForms(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{{"/bin/sh", "-c", "exec " + self}, {"env", "A=B", self}} {
		s := start(t, configuration{mode: "v1", command: argv})
		if r := s.ask("tcp", s.address()); r.ListenPID != fmt.Sprint(r.PID) {
			t.Errorf("%q: LISTEN_PID is %s, the pid is %d", argv, r.ListenPID, r.PID)
		}
	}
}

// The environment file is read anew for each generation, the service runs as another user, and limits are set.
func TestSurroundings(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "env")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// The test binary must be there for the other user too.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "service")
	// Not by this process: one that another test forks just then would have it open for writing, and it could not be executed.
	if out, err := exec.Command("cp", self, program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	write("COLOUR=blue\n")
	c := configuration{mode: "v1", command: []string{program}, more: fmt.Sprintf("user = \"nobody\"\ndirectory = \"/\"\nenvironment-file = [%q]\n", file)}
	c.sockets = "[[socket]]\nlisten = \"tcp://127.0.0.1:0\"\n[limits]\nnofile = \"333\"\n"
	s := launch(t, c)
	if err := os.Chmod(s.dir, 0o755); err != nil { // its notify socket must be reached by the other user
		t.Fatal(err)
	}
	s.until("a live generation", func(st *control.Status) bool { return live(st) != nil && st.Current == nil })
	r := s.ask("tcp", s.address())
	has := func(variable string) bool {
		return strings.Contains("\n"+strings.Join(r.Env, "\n")+"\n", "\n"+variable+"\n")
	}
	if !has("COLOUR=blue") || !has("USER=nobody") {
		t.Errorf("the environment is %q", r.Env)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.PID))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(status), "Uid:\t65534\t65534\t65534\t65534") {
		t.Errorf("it runs as somebody else:\n%s", status)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", r.PID))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(limits), "Max open files            333") {
		t.Errorf("the limits are\n%s", limits)
	}
	write("COLOUR=red\n")
	if status, _, stderr := s.reload(); status != 0 {
		t.Fatalf("reload: %s", stderr)
	}
	s.settled()
	if r = s.ask("tcp", s.address()); !has("COLOUR=red") {
		t.Errorf("the environment is %q", r.Env)
	}
}

// A configuration that cannot be read without end is an error, and the supervisor can still be stopped.
func TestEndlessFile(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	path := filepath.Join(dir, "env")
	if err := os.WriteFile(path, []byte("A=B\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := start(t, configuration{mode: "v1", more: fmt.Sprintf("environment-file = [%q]\n", path)})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := s.reload(); status != 1 || !strings.Contains(stderr, "not a regular file") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	s.settled()
}

// A service that must say WATCHDOG=1 and does not is ended, even if it ignores that, and started again.
func TestServiceWatchdog(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ignores := "trap '' ABRT; while :; do sleep 0.1; done"
	ready := configuration{command: []string{"/bin/sh", "-c", ignores}, more: "watchdog = \"300ms\"\n",
		sockets: "[[socket]]\nlisten = \"tcp://127.0.0.1:0\"\n[ready]\nby = \"delay\"\ndelay = \"10ms\"\n"}
	s := start(t, ready)
	configuration{mode: "v2", command: []string{self}, sockets: ready.sockets}.write(t, s.dir)
	s.until("a restart", func(st *control.Status) bool { return st.Last != nil && st.Last.Restart && st.Last.To > 1 })
}

// The control socket's directory is one supervisor's: a second one says so and touches nothing.
func TestTwoOfOneName(t *testing.T) {
	t.Parallel()
	s := start(t, configuration{mode: "v1"})
	status, _, stderr := command(t, "run", "--config", filepath.Join(s.dir, "test.toml"))
	if status != 1 || !strings.Contains(stderr, "another supervisor is running") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	if status, _, stderr := s.reload(); status != 0 {
		t.Errorf("the first one: %s", stderr)
	}
}

// The runtime directory is removed, or everything in it: the supervisor makes again what it needs, and another one that follows it
// takes the service over. A service that dies meanwhile is started again.
func TestRuntimeDirectoryRemoved(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(dir string) error{
		"whole": os.RemoveAll,
		"emptied": func(dir string) error {
			files, err := filepath.Glob(filepath.Join(dir, "*"))
			for _, file := range files {
				err = errors.Join(err, os.Remove(file))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startReign(t, tested("v0"))
			run := filepath.Join(r.dir, "run")
			was := r.settled()
			client := r.loaded(2)
			for range 2 {
				if err := remove(run); err != nil {
					t.Fatal(err)
				}
				st := r.until("an answer", func(*control.Status) bool { return true })
				awaitFiles(t, run, "state.json", fmt.Sprintf("notify.%d", was.Number))
				end(t, st.PID, unix.SIGKILL)
				r.again()
				r.only(was)
			}
			if err := remove(run); err != nil {
				t.Fatal(err)
			}
			r.until("an answer", func(*control.Status) bool { return true })
			r.reloadTo(tested("v1")).must()
			if err := client.Version(t.Context(), "v1"); err != nil {
				t.Fatal(err)
			}
			if result := client.Stop(); result.Failed() > 0 {
				t.Errorf("%s", describeLoad(result))
			}
			was = r.settled()
			if err := remove(run); err != nil {
				t.Fatal(err)
			}
			kill(t, was.PID)
			if r.settled().PID == was.PID {
				t.Error("the dead one is live")
			}
			if n := strings.Count(r.log.String(), "the control socket was removed"); n != 4 {
				t.Errorf("it was said %d times that the control socket was removed", n)
			}
		})
	}
}

// awaitFiles waits until files are in a directory.
func awaitFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("there is no %s in %s", name, dir)
			}
		}
	}
}
