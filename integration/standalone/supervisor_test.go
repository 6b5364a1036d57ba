package standalone

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// supervisor is a supervisor that runs, in a session of its own.
type supervisor struct {
	t      *testing.T
	dir    string // has everything of it
	cmd    *exec.Cmd
	client *control.Client
	log    *buffer
	output io.Writer // the log, unless the test wants something else
	exited chan struct{}
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// configuration is what a test supervisor is started from; a test changes its file and reloads.
type configuration struct {
	mode    string   // of the service
	command []string // instead of the service
	sockets string   // TOML; one on a free port by default
	more    string   // TOML, before everything else
	whole   string   // the whole file, instead of all above
	program string   // instead of the binary under test
	dir     string   // instead of one that is made
	output  *os.File // where the supervisor writes to, instead of the test's log
	uid     int      // instead of the test's; it has the directory then
}

func (c configuration) write(t *testing.T, dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := c.command
	if command == nil {
		command = []string{self}
	}
	quoted, err := json.Marshal(command) // an array of strings is the same in TOML
	if err != nil {
		t.Fatal(err)
	}
	sockets := c.sockets
	if sockets == "" {
		sockets = "[[socket]]\nname = \"main\"\nlisten = \"tcp://127.0.0.1:0\"\n"
	}
	text := fmt.Sprintf("name = \"test\"\ncommand = %s\nruntime-directory = %q\nstate-directory = %q\n%s\n%s\n[environment]\n%s = %q\n",
		quoted, filepath.Join(dir, "run"), filepath.Join(dir, "state"), c.more, sockets, serviceEnv, c.mode)
	text = cmp.Or(c.whole, text)
	temporary := filepath.Join(dir, "new.toml")
	if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(dir, "test.toml")); err != nil {
		t.Fatal(err)
	}
}

// start starts a supervisor and waits until its service is live.
func start(t *testing.T, c configuration) *supervisor {
	t.Helper()
	s := launch(t, c)
	s.until("a live generation", func(st *control.Status) bool { return live(st) != nil && st.Current == nil })
	return s
}

// launch starts a supervisor.
func launch(t *testing.T, c configuration, wrapper ...string) *supervisor {
	t.Helper()
	dir := c.dir
	if dir == "" {
		dir = shortDir(t)
	}
	c.write(t, dir)
	s := &supervisor{t: t, dir: dir, log: &buffer{}, exited: make(chan struct{})}
	s.output = s.log
	if c.output != nil {
		s.output = c.output
	}
	s.client = control.NewClient(s.control())
	argv := append(wrapper, cmp.Or(c.program, program), "run", "--config", filepath.Join(dir, "test.toml"))
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.uid != 0 {
		s.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.uid)}
		for _, path := range []string{dir, filepath.Join(dir, "test.toml")} {
			if err := os.Chown(path, c.uid, c.uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func(cmd *exec.Cmd, exited chan struct{}) {
		cmd.Wait()
		close(exited)
	}(s.cmd, s.exited)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the supervisor's log:\n%s", s.log)
		}
		s.cmd.Process.Signal(unix.SIGQUIT)
		s.wait()
		if left := s.descendants(); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
		if strings.Contains(s.log.String(), "please report this") || strings.Contains(s.log.String(), "DATA RACE") {
			t.Errorf("the supervisor found a fault in itself:\n%s", s.log)
		}
	})
	return s
}

func (s *supervisor) control() string { return filepath.Join(s.dir, "run", control.SocketName) }

// wait waits until the supervisor has ended, and returns its exit status.
func (s *supervisor) wait() int {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(60 * time.Second):
		s.t.Fatalf("the supervisor does not end; its log:\n%s", s.log)
	}
	return s.cmd.ProcessState.ExitCode()
}

func (s *supervisor) pid() int { return s.cmd.Process.Pid }

func (s *supervisor) signal(sig unix.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// until asks for the status until it is as wanted.
func (s *supervisor) until(what string, ok func(*control.Status) bool) *control.Status {
	s.t.Helper()
	var last any
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		st, err := s.client.Status(context.Background())
		if err == nil && ok(st) {
			return st
		}
		last = err
		if err == nil {
			text, _ := json.Marshal(st)
			last = string(text)
		}
		select {
		case <-s.exited:
			s.t.Fatalf("the supervisor has ended; its log:\n%s", s.log)
		default:
		}
	}
	s.t.Fatalf("not seen: %s; the last answer was %v", what, last)
	return nil
}

// settled waits until one generation is live and nothing else is there.
func (s *supervisor) settled() *upgrade.GenerationStatus {
	s.t.Helper()
	st := s.until("one live generation", func(st *control.Status) bool {
		return len(st.Generations) == 1 && live(st) != nil && st.Current == nil
	})
	return live(st)
}

func live(st *control.Status) *upgrade.GenerationStatus {
	for i := range st.Generations {
		if st.Generations[i].Role == upgrade.RoleLive {
			return &st.Generations[i]
		}
	}
	return nil
}

// address is where the first socket is bound.
func (s *supervisor) address() string {
	s.t.Helper()
	st := s.until("a socket", func(st *control.Status) bool { return len(st.Sockets) > 0 })
	return strings.TrimPrefix(st.Sockets[0].Address, "tcp://")
}

// ask asks the service for its report.
func (s *supervisor) ask(network, address string) report {
	s.t.Helper()
	c, err := net.DialTimeout(network, address, 10*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	answer, err := io.ReadAll(c)
	if err != nil {
		s.t.Fatal(err)
	}
	_, body, ok := bytes.Cut(answer, []byte("\r\n\r\n"))
	var r report
	if err := json.Unmarshal(body, &r); err != nil || !ok {
		s.t.Fatalf("the service answered %q", answer)
	}
	return r
}

// command runs a command of the program and returns its exit status and its output.
func command(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return commandIn(t, "", args...)
}

// commandIn runs a command in a directory.
func commandIn(t *testing.T, dir string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir = dir
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}

// reload runs the reload command.
func (s *supervisor) reload() (status int, stdout, stderr string) {
	s.t.Helper()
	return command(s.t, "reload", "--control", s.control())
}

// descendants lists the processes that have this test's directory in their environment or command line, or the
// supervisor as their parent: pid, state and name.
func (s *supervisor) descendants() []string {
	s.t.Helper()
	var found []string
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
		var state string
		var ppid int
		fmt.Sscan(string(text[end+1:]), &state, &ppid)
		pid := filepath.Base(filepath.Dir(path))
		if pid == fmt.Sprint(s.pid()) {
			continue
		}
		if ppid == s.pid() || bytes.Contains(environ, []byte(s.dir+"/")) {
			found = append(found, fmt.Sprintf("%s %s %s", pid, state, text[open:end+1]))
		}
	}
	return found
}

// zombies are those of them that nobody has waited for.
func (s *supervisor) zombies() []string {
	var dead []string
	for _, d := range s.descendants() {
		if strings.Fields(d)[1] == "Z" {
			dead = append(dead, d)
		}
	}
	return dead
}

// descriptors counts the supervisor's.
func (s *supervisor) descriptors() int {
	s.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.pid()))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(entries)
}

// resident is the supervisor's resident memory in KiB.
func (s *supervisor) resident() (kib int) {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid()))
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			fmt.Sscan(rest, &kib)
		}
	}
	return kib
}

// shortDir makes a directory whose path leaves room for a unix socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "zdd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// live returns the live generation.
func (s *supervisor) live() *upgrade.GenerationStatus {
	s.t.Helper()
	return live(s.until("a live generation", func(st *control.Status) bool { return live(st) != nil }))
}

// mustReload hands off, without a process for it.
func (s *supervisor) mustReload() *upgrade.Record {
	s.t.Helper()
	record, err := s.client.Reload(s.t.Context(), 0, func(upgrade.Progress) {})
	if err != nil {
		s.t.Fatal(err)
	}
	return record
}

// waitFor blocks until ok.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok() && !t.Failed(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not seen: %s", what)
		}
	}
}
