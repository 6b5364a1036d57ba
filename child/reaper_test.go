package child_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
)

func TestExit(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	for script, want := range map[string]struct {
		exit child.Exit
		text string
	}{
		"exit 0":                      {child.Exit{Known: true}, "exit status 0"},
		"exit 3":                      {child.Exit{Known: true, Code: 3}, "exit status 3"},
		"ulimit -c 0; kill -SEGV $$":  {child.Exit{Known: true, Signal: unix.SIGSEGV}, "killed by SIGSEGV"},
		"kill -KILL $$":               {child.Exit{Known: true, Signal: unix.SIGKILL}, "killed by SIGKILL"},
		"exec env kill -s RTMIN+3 $$": {child.Exit{Known: true, Signal: 37}, "killed by signal 37"},
	} {
		exit, err := r.Run(t.Context(), sh(script))
		if err != nil || exit != want.exit || exit.String() != want.text {
			t.Errorf("%s: %v, %v; want %s", script, exit, err, want.text)
		}
		if exit.Success() != (want.text == "exit status 0") {
			t.Errorf("%s: success is %v", script, exit.Success())
		}
	}
	if got := (child.Exit{}).String(); got != "exit status unknown" {
		t.Errorf("nothing known: %s", got)
	}
	if got := (child.Exit{Known: true, Signal: unix.SIGABRT, Core: true}).String(); got != "killed by SIGABRT (core dumped)" {
		t.Errorf("with a core: %s", got)
	}
}

func TestSignal(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	p := start(t, r, sh("exec sleep 1000"))
	if err := p.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit := waitDone(t, p); exit.Signal != unix.SIGTERM {
		t.Errorf("got %v", exit)
	}
	if err := p.Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("after its end: %v", err)
	}
	p.Close()
	if err := p.Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("after Close: %v", err)
	}
}

func TestStartAfterClose(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(t.Context(), sh("exit 0")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("again: %v", err)
	}
}

// Many that end at once are all noticed, though their SIGCHLDs are one.
func TestManyEndAtOnce(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	gate := dup(t, read)
	var all []*child.Process
	for range 30 {
		c := sh("read line; exit 7")
		c.Stdin = gate
		all = append(all, start(t, r, c))
	}
	gate.Close()
	write.Close()
	for _, p := range all {
		if exit := waitDone(t, p); exit.Code != 7 {
			t.Errorf("%v: %v", p, exit)
		}
	}
}

// Starts from many goroutines do not mix anything up.
func TestConcurrentStarts(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			exit, err := r.Run(t.Context(), sh("exit "+strconv.Itoa(i)))
			if err != nil || exit.Code != i {
				t.Errorf("%d: %v, %v", i, exit, err)
			}
		}()
	}
	wg.Wait()
}

// Orphans fall to the supervisor, which waits for them.
func TestStrays(t *testing.T) {
	if !alone(t) {
		return
	}
	r, err := child.NewReaper(child.ReaperOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := newOutput(t)
	c := sh("(setsid sh -c 'echo $$; exec sleep 1000' &)")
	c.Stdout = out.write
	if exit := waitDone(t, start(t, r, c)); !exit.Success() {
		t.Fatal(exit)
	}
	orphan, err := strconv.Atoi(out.line(t))
	if err != nil {
		t.Fatal(err)
	}
	// The subshell in between was waited for by the shell or by us, if that was gone.
	waitFor(t, "the orphan to be ours", func() bool { return parentOf(t, orphan) == os.Getpid() })
	before := r.Strays()
	if err := unix.Kill(orphan, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the orphan to be waited for", func() bool { return r.Strays() == before+1 })
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", orphan)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// What a command leaves of its tree does not outlive Run.
func TestRunLeavesNothing(t *testing.T) {
	if !alone(t) {
		return
	}
	r, err := child.NewReaper(child.ReaperOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := newOutput(t)
	c := sh("sleep 1000 & echo $!")
	c.Stdout = out.write
	if exit, err := r.Run(t.Context(), c); err != nil || !exit.Success() {
		t.Fatal(exit, err)
	}
	left, err := strconv.Atoi(out.line(t))
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "what it left to be gone", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", left))
		return errors.Is(err, os.ErrNotExist)
	})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func parentOf(t testing.TB, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	ppid, err := strconv.Atoi(field(string(b), "PPid"))
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}

// While strays are held, somebody else can start a process and wait for it; ours
// are noticed all the same.
func TestHoldStrays(t *testing.T) {
	if !alone(t) {
		return
	}
	r, err := child.NewReaper(child.ReaperOptions{})
	if err != nil {
		t.Fatal(err)
	}
	release, second := r.HoldStrays(), r.HoldStrays()
	for range 20 {
		cmd := exec.Command("/bin/sh", "-c", "exit 5")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		exit, err := r.Run(t.Context(), sh("exit 6"))
		if err != nil || exit.Code != 6 {
			t.Fatal(exit, err)
		}
		var failed *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &failed) || failed.ExitCode() != 5 {
			t.Fatalf("somebody else's process: %v", err)
		}
	}
	cmd := exec.Command("/bin/sh", "-c", "exit 5")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the process to end", func() bool { return state(t, cmd.Process.Pid) == "Z" })
	release()
	release() // only counts once
	if n := r.Strays(); n != 0 {
		t.Errorf("%d strays were waited for while they were held", n)
	}
	second()
	if n := r.Strays(); n != 1 {
		t.Errorf("%d strays were waited for after that, want 1", n)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Release()
}

// state is the letter in /proc/PID/status.
func state(t testing.TB, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	letter, _, _ := strings.Cut(field(string(b), "State"), " ")
	return letter
}

// A failed start leaves nothing: no zombie and no descriptor.
func TestFailedStartsLeaveNothing(t *testing.T) {
	if !alone(t) {
		return
	}
	r, err := child.NewReaper(child.ReaperOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fd := listener(t)
	var before int
	for i := range 30 {
		if i == 10 { // what the runtime opens on first use is open by now
			before = len(openFiles())
		}
		c := child.Command{Path: "/no/such", Sockets: []child.NamedFD{{Name: "a", FD: fd}}}
		if _, err := r.Start(t.Context(), c); err == nil {
			t.Fatal("no error")
		}
		if exit, err := r.Run(t.Context(), sh("exit 0")); err != nil || !exit.Success() {
			t.Fatal(exit, err)
		}
	}
	if after := len(openFiles()); after != before {
		t.Errorf("%d descriptors became %d: %q", before, after, openFiles())
	}
	if pids := children(t); len(pids) > 0 {
		t.Errorf("there are still children: %v", pids)
	}
	if n := r.Strays(); n != 0 {
		t.Errorf("%d of our own were taken for strays", n)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRunIsCancelled(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	ctx := deadline(t)
	out := newOutput(t)
	c := sh("trap '' TERM; sleep 1000 & echo $!; wait")
	c.Stdout = out.write
	cancelled, cancel := context.WithCancelCause(ctx)
	result := make(chan error, 1)
	go func() {
		_, err := r.Run(cancelled, c)
		result <- err
	}()
	pid, err := strconv.Atoi(out.line(t))
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	cancel(why)
	if err := <-result; err == nil || err.Error() != "run "+c.Path+": enough" {
		t.Errorf("got %v", err)
	}
	// The orphan is init's to wait for.
	waitFor(t, "the command's child to be dead", func() bool { s := state(t, pid); return s == "" || s == "Z" })
}

// As process 1 of a container, everybody's orphans are ours anyway.
func TestAsInit(t *testing.T) {
	needRoot(t)
	t.Parallel()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{helperVar + "=init", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var sees, told, strays int
	if n, err := fmt.Sscan(string(out), &sees, &told, &strays); n != 3 {
		t.Fatalf("%v: %s", err, out)
	}
	if sees == 1 || sees != told || strays < 1 {
		t.Errorf("the child sees the pid %d, LISTEN_PID is %d, and %d strays were waited for", sees, told, strays)
	}
}

// children are the children of this process, zombies too.
func children(t testing.TB) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if err == nil && field(string(b), "PPid") == strconv.Itoa(os.Getpid()) {
			pids = append(pids, pid)
		}
	}
	return pids
}
