package child_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// helperVar names the helper that this binary is to be instead of a test.
const helperVar = "CHILD_TEST_HELPER"

// aloneVar is set in a process that runs one test alone.
const aloneVar = "CHILD_TEST_ALONE"

func TestMain(m *testing.M) {
	if name := os.Getenv(helperVar); name != "" {
		helpers[name]()
		os.Exit(0)
	}
	before := openFiles()
	code := m.Run()
	if code == 0 {
		if err := leaks(before); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL: the tests have left something behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// leaks looks for children, goroutines and descriptors that were not there before the tests.
func leaks(before []string) error {
	var status unix.WaitStatus
	if pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil); !errors.Is(err, unix.ECHILD) {
		return fmt.Errorf("a child (pid %d, 0 for one that runs)", pid)
	}
	// A goroutine that was waited for may still be returning.
	var stacks []byte
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		stacks = make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if !bytes.Contains(stacks, []byte("/zddsupervisor/child.")) { // this function is in child_test
			stacks = nil
			break
		}
	}
	if stacks != nil {
		return fmt.Errorf("goroutines:\n%s", stacks)
	}
	after := openFiles()
	for _, file := range before {
		if i := slices.Index(after, file); i >= 0 {
			after = slices.Delete(after, i, i+1)
		}
	}
	// What the runtime opens once and keeps.
	after = slices.DeleteFunc(after, func(file string) bool {
		return strings.Contains(file, "[eventpoll]") || strings.Contains(file, "[eventfd]")
	})
	if len(after) > 0 {
		return fmt.Errorf("descriptors %q", after)
	}
	return nil
}

// openFiles is what the descriptors of this process are, but for the one that lists
// them.
func openFiles() []string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	var files []string
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			files = append(files, target)
		}
	}
	return files
}

// alone runs the test in a process of its own, for what concerns the whole process,
// and says whether this is that process.
func alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(aloneVar) != "" {
		return true
	}
	t.Parallel()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), aloneVar+"=1")
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("--- SKIP")) {
		t.Skipf("%s", out)
	}
	if err != nil || !bytes.Contains(out, []byte("PASS")) {
		t.Errorf("alone: %v\n%s", err, out)
	}
	return false
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// newReaper is one that leaves other children alone, so that tests may run in
// parallel.
func newReaper(t testing.TB) *child.Reaper {
	t.Helper()
	r, err := child.NewReaper(child.ReaperOptions{OwnChildrenOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// start starts a command and sees to its end.
func start(t testing.TB, r *child.Reaper, c child.Command) *child.Process {
	t.Helper()
	p, err := r.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Tree().Kill(deadline(t)); err != nil {
			t.Error(err)
		}
		p.Close()
	})
	return p
}

// sh is a command for the shell.
func sh(script string) child.Command {
	return child.Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}}
}

// run runs a command to its end and returns what it has written.
func run(t testing.TB, r *child.Reaper, c child.Command) string {
	t.Helper()
	out := newOutput(t)
	c.Stdout = out.write
	if c.Stderr == nil {
		c.Stderr = out.write
	}
	exit, err := r.Run(t.Context(), c)
	text := out.all()
	if err != nil || !exit.Success() {
		t.Fatalf("run %q: %v, %v: %s", c.Args, err, exit, text)
	}
	return text
}

// An output is a pipe that is read as it fills.
type output struct {
	write *fdpass.FD
	read  *os.File
}

func newOutput(t testing.TB) *output {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	o := &output{write: dup(t, write), read: read}
	write.Close()
	t.Cleanup(func() {
		o.write.Close()
		o.read.Close()
	})
	return o
}

// all is everything until all writers have closed it.
func (o *output) all() string {
	o.write.Close()
	b, _ := io.ReadAll(o.read)
	return string(b)
}

// line is the next line; nothing else is read.
func (o *output) line(t testing.TB) string {
	t.Helper()
	if err := o.read.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	var line []byte
	for {
		var b [1]byte
		if _, err := o.read.Read(b[:]); err != nil {
			t.Fatalf("after %q: %v", line, err)
		}
		if b[0] == '\n' {
			return string(line)
		}
		line = append(line, b[0])
	}
}

// dup is a duplicate of a file, for a child.
func dup(t testing.TB, f *os.File) *fdpass.FD {
	t.Helper()
	raw, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	return fdpass.NewFD(raw)
}
