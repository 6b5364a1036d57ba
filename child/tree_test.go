package child_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// startShowing starts a command and returns it with the pids in the lines that it
// writes at first.
func startShowing(t testing.TB, r *child.Reaper, c child.Command, lines int) (*child.Process, []int) {
	t.Helper()
	out := newOutput(t)
	c.Stdout = out.write
	p := start(t, r, c)
	var pids []int
	for range lines {
		pid, err := strconv.Atoi(out.line(t))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return p, pids
}

func members(t testing.TB, p *child.Process) []int {
	t.Helper()
	pids, err := p.Tree().Members()
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func dead(t testing.TB, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if s := state(t, pid); s != "" && s != "Z" {
			t.Errorf("process %d is still there, in state %s", pid, s)
		}
	}
}

// daemon is a shell command that makes a daemon: a double fork into a new session.
const daemon = `(setsid sh -c 'echo $$; exec sleep 1000' &)`

// Every kind of descendant is found, as long as its main process runs and after.
func TestTree(t *testing.T) {
	if !alone(t) {
		return
	}
	r, err := child.NewReaper(child.ReaperOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for name, test := range map[string]struct {
		script string
		pids   int
	}{
		"alone":               {`exec sleep 1000`, 0},
		"children":            {`sleep 1000 & echo $!; sleep 1000 & echo $!; wait`, 2},
		"grandchildren":       {`sh -c 'sleep 1000 & echo $!; wait' & echo $!; wait`, 2},
		"own session":         {`setsid sh -c 'echo $$; exec sleep 1000' & wait`, 1},
		"orphan":              {`(sleep 1000 & echo $!); exec sleep 1000`, 1},
		"daemon":              {daemon + `; exec sleep 1000`, 1},
		"daemon's child":      {`(setsid sh -c 'sleep 1000 & echo $!; echo $$; wait' &); exec sleep 1000`, 2},
		"main ended, orphan":  {`sleep 1000 & echo $!`, 1},
		"main ended, daemon":  {daemon, 1},
		"main ended, several": {`sleep 1000 & echo $!; ` + daemon + `;` + daemon, 3},
		"stopped":             {`sleep 1000 & echo $!; kill -STOP $!; kill -STOP $$`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := sh(test.script)
			c.Notify = "/run/test/" + name
			p, pids := startShowing(t, r, c, test.pids)
			want := append([]int{}, pids...)
			if strings.HasPrefix(name, "main ended") {
				waitDone(t, p)
			} else {
				want = append(want, p.Pid())
			}
			slices.Sort(want)
			// A shell in between may not have ended yet.
			waitFor(t, fmt.Sprintf("the members to be %v", want), func() bool { return slices.Equal(members(t, p), want) })
			for _, pid := range want {
				if !p.Tree().Contains(pid) {
					t.Errorf("it does not contain %d", pid)
				}
			}
			for _, pid := range []int{0, -1, 1, os.Getpid(), os.Getppid(), 1 << 30} {
				if p.Tree().Contains(pid) {
					t.Errorf("it contains %d", pid)
				}
			}
			gone := make(chan error, 1)
			go func() { gone <- p.Tree().Gone(deadline(t)) }()
			if err := p.Tree().Kill(deadline(t)); err != nil {
				t.Error(err)
			}
			dead(t, want...)
			if err := <-gone; err != nil {
				t.Errorf("waiting for it to be gone: %v", err)
			}
			waitDone(t, p)
			if got := members(t, p); len(got) != 0 {
				t.Errorf("after the kill, members are %v", got)
			}
			if err := p.Tree().Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("signal to nobody: %v", err)
			}
			waitFor(t, "nothing to be left to wait for", func() bool { return len(children(t)) == 0 })
		})
	}
}

// Two generations and strangers are told apart, even with everything alike.
func TestTreesAreApart(t *testing.T) {
	if !alone(t) {
		return
	}
	r, err := child.NewReaper(child.ReaperOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	script := `sleep 1000 & echo $!; ` + daemon + `; wait`
	one, two := sh(script), sh(script)
	one.Notify, two.Notify = "/run/test/gen-1", "/run/test/gen-11"
	p, pPids := startShowing(t, r, one, 2)
	q, qPids := startShowing(t, r, two, 2)

	// One that we have not started, with the mark of the first.
	release := r.HoldStrays()
	stranger := exec.Command("/usr/bin/env", "-i", "NOTIFY_SOCKET=/run/test/gen-1", "sleep", "1000")
	stranger.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}

	want := append([]int{p.Pid()}, pPids...)
	slices.Sort(want)
	got := slices.DeleteFunc(members(t, p), func(pid int) bool { return pid == stranger.Process.Pid })
	if !slices.Equal(got, want) {
		t.Errorf("members of the first are %v, want %v", got, want)
	}
	if slices.Contains(members(t, q), stranger.Process.Pid) {
		t.Error("the second has a member with the mark of the first")
	}
	for _, pid := range qPids {
		if p.Tree().Contains(pid) {
			t.Errorf("the first contains %d of the second", pid)
		}
	}
	stranger.Process.Kill()
	stranger.Wait()
	release()
	if err := p.Tree().Kill(deadline(t)); err != nil {
		t.Fatal(err)
	}
	dead(t, want...)
	want = append([]int{q.Pid()}, qPids...)
	slices.Sort(want)
	if got := members(t, q); !slices.Equal(got, want) {
		t.Errorf("after the first was killed, members of the second are %v, want %v", got, want)
	}
	if err := q.Tree().Kill(deadline(t)); err != nil {
		t.Fatal(err)
	}
}

func TestSignalTree(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	p, pids := startShowing(t, r, sh(`sleep 1000 & echo $!; sleep 1000 & echo $!; wait`), 2)
	if err := p.Tree().Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit := waitDone(t, p); exit.Signal != unix.SIGTERM {
		t.Errorf("main process: %v", exit)
	}
	if err := p.Tree().Gone(deadline(t)); err != nil {
		t.Fatal(err)
	}
	dead(t, pids...)
}

func TestGoneTimesOut(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	p, pids := startShowing(t, r, sh(`sleep 1000 & echo $!`), 1)
	waitDone(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := p.Tree().Gone(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), strconv.Itoa(pids[0])) {
		t.Errorf("got %v, want it to name %d", err, pids[0])
	}
}

func TestKillBigTree(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	c := sh(`i=0; while [ $i -lt 40 ]; do
		sh -c 'for j in 1 2 3 4; do sleep 1000 & done; echo $$; wait' & i=$((i+1)); done; wait`)
	p, _ := startShowing(t, r, c, 40)
	if n := len(members(t, p)); n < 200 {
		t.Errorf("only %d members", n)
	}
	if err := p.Tree().Kill(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if got := members(t, p); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}

// A tree that forks while it is being killed is killed all the same, even without a
// mark. The scripts end by themselves, in case it is not.
func TestKillForkers(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	for name, script := range map[string]string{
		// Each process forks and goes, so that hardly a scan finds one that is still there.
		"hoppers": `echo $$; for i in 1 2 3 4; do perl -e 'for (1..20000) { exit if fork }' & done; sleep 1 & sleep 1 & exec sleep 1000`,
		// Each makes sessions, in which more is forked.
		"sessions": `echo $$; i=0; while [ $i -lt 200 ]; do i=$((i+1))
			setsid sh -c 'j=0; while [ $j -lt 20 ]; do j=$((j+1)); sleep 20 & sleep 0.02; done' & sleep 0.01; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sh(script)
			mark := fmt.Sprintf("TEST_FORKER=%s-%d", name, os.Getpid())
			c.Env = append(c.Env, mark)
			p, _ := startShowing(t, r, c, 1)
			waitFor(t, "it to grow", func() bool { return len(carrying(t, mark)) > 5 })
			if err := p.Tree().Kill(deadline(t)); err != nil {
				t.Fatal(err)
			}
			if got := members(t, p); len(got) > 0 {
				t.Errorf("left: %v", got)
			}
			if got := carrying(t, mark); len(got) > 0 {
				t.Errorf("got away: %v", got)
			}
		})
	}
}

// carrying are the processes whose environment has an entry.
func carrying(t testing.TB, entry string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(file string) bool {
		b, err := os.ReadFile(file)
		return err != nil || !slices.Contains(strings.Split(string(b), "\x00"), entry)
	})
}

// A process whose first thread has ended looks like a zombie and is none.
func TestMainThreadEnded(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	out := newOutput(t)
	c := helper("end-main-thread")
	c.Stdout = out.write
	p := start(t, r, c)
	if got := out.line(t); got != "ending" {
		t.Fatal(got)
	}
	waitFor(t, "the first thread to end", func() bool { return state(t, p.Pid()) == "Z" })
	if got := members(t, p); !slices.Equal(got, []int{p.Pid()}) {
		t.Errorf("members are %v, want %d", got, p.Pid())
	}
	if err := p.Tree().Kill(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if exit := waitDone(t, p); exit.Signal != unix.SIGKILL {
		t.Errorf("got %v", exit)
	}
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	// Somebody else's child, as far as the Process knows.
	cmd := exec.Command("/bin/sh", "-c", "sleep 1000 & echo $!; wait")
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 32)
	n, err := stdout.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	grandchild, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	start := startTime(t, pid)

	if _, err := child.Adopt(child.Adoption{Pid: pid, StartTime: start + 1}); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("with another start time: %v", err)
	}
	p, err := child.Adopt(child.Adoption{Pid: pid, StartTime: start})
	if err != nil {
		t.Fatal(err)
	}
	closed, err := child.Adopt(child.Adoption{Pid: pid, StartTime: start})
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil { // waits for its goroutine
		t.Fatal(err)
	}
	if p.Pid() != pid || p.StartTime() != start {
		t.Errorf("it is %d, %d", p.Pid(), p.StartTime())
	}
	if got, want := members(t, p), []int{pid, grandchild}; !slices.Equal(got, want) {
		t.Errorf("members are %v, want %v", got, want)
	}
	waited := make(chan struct{})
	go func() {
		cmd.Wait()
		close(waited)
	}()
	if err := p.Tree().Kill(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if exit := waitDone(t, p); exit.Known {
		t.Errorf("its exit is said to be known: %v", exit)
	}
	<-waited
	if err := p.Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after its end: %v", err)
	}
	p.Close()
	select {
	case <-closed.Done():
		t.Error("closed before the process had ended, it says that it has")
	default:
	}
	if _, err := child.Adopt(child.Adoption{Pid: pid, StartTime: start}); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("once it is gone: %v", err)
	}
	dead(t, grandchild)
}

// startTime reads field 22 of a process whose name has no spaces.
func startTime(t testing.TB, pid int) uint64 {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(strings.Fields(string(b))[21], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
