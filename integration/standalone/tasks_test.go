package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// tasks counts the threads of a process.
func tasks(t *testing.T, pid int) int {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(threads)
}

// limitTasks sets RLIMIT_NPROC of a process, as its own user: that takes no capability.
func limitTasks(pid, uid int, n uint64) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		var old unix.Rlimit
		for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} { // of this thread alone
			if _, _, errno := unix.RawSyscall(call, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
				result <- errno
				return
			}
		}
		err := unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &old)
		if err == nil {
			err = unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: n, Max: old.Max}, nil)
		}
		result <- err
	}()
	return <-result
}

// Where the supervisor's user may have no more processes, a handoff fails with a reason that names that limit and changes nothing, and
// once there may be more, it can.
func TestUserLimit(t *testing.T) {
	t.Parallel()
	needRoot(t)
	c := tested("v0")
	c.uid = 200_000 + os.Getpid() // nobody else is
	s := start(t, c)
	before := s.settled()
	client := s.loaded(2)
	limit := func(n uint64) {
		t.Helper()
		if err := limitTasks(s.pid(), c.uid, n); err != nil {
			t.Fatal(err)
		}
	}
	for _, spare := range []int{0, 2} { // none for a process, and too few for its threads
		limit(uint64(tasks(t, s.pid()) + tasks(t, before.PID) + spare))
		c.command = tested("v1").command
		c.write(t, s.dir)
		os.Chown(filepath.Join(s.dir, "test.toml"), c.uid, c.uid)
		if status, _, stderr := s.reload(); status != 1 || !strings.Contains(stderr, "RLIMIT_NPROC") || strings.Contains(stderr, "pids.max") {
			t.Errorf("exit status %d: %s", status, stderr)
		}
		s.only(before)
	}
	limit(10_000)
	if status, _, stderr := s.reload(); status != 0 {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	s.settled()
	mustLoseNothing(t, client)
}

// The same where a cgroup has no room for more.
func TestCgroupLimit(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	before := s.settled()
	client := s.loaded(2)
	g := newCgroup(t, "pids")
	g.write("cgroup.procs", s.pid())
	g.write("pids.max", tasks(t, s.pid()))
	s.reloadTo(tested("v1")).mustFail("pids.max", g.dir)
	s.only(before)
	g.write("pids.max", 10_000)
	s.reloadTo(tested("v1")).must()
	s.settled()
	mustLoseNothing(t, client)
}

// The kernel kills the service since its cgroup is out of memory: its socket stays open, and it is started again.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	was := s.settled()
	client := s.loaded(4)
	g := newCgroup(t, "memory")
	g.write(g.memoryLimit(), 64<<10) // first: of memory that is in use already, version 1 refuses a limit below it
	g.write("cgroup.procs", was.PID)
	s.until("another generation", func(st *control.Status) bool {
		return live(st) != nil && live(st).Number > was.Number && len(st.Generations) == 1 && st.Current == nil
	})
	if !strings.Contains(s.log.String(), "SIGKILL") || g.oomKills() == 0 {
		t.Errorf("inconclusive: the kernel counts %d kills; the log says\n%s", g.oomKills(), s.log)
	}
	if err := client.Answered(t.Context(), 200); err != nil {
		t.Fatal(err)
	}
	result := client.Stop()
	t.Logf("%s", describeLoad(result))
	if n := result.Count(load.Refused); n > 0 {
		t.Errorf("%d connections were refused", n)
	}
}

// A cgroup is one of a test's own, of either version.
type cgroup struct {
	t   *testing.T
	dir string
}

// newCgroup makes one with a controller.
func newCgroup(t *testing.T, controller string) cgroup {
	t.Helper()
	needRoot(t)
	const root = "/sys/fs/cgroup"
	base := filepath.Join(root, controller) // version 1
	if _, err := os.Stat(base); err != nil {
		text, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
		if err != nil || !strings.Contains(string(text), controller) {
			if os.Getenv("CI") == "true" {
				t.Fatalf("needs the cgroup controller %s", controller)
			}
			t.Skipf("needs the cgroup controller %s", controller)
		}
		base = root
	}
	g := cgroup{t, filepath.Join(base, filepath.Base(shortDir(t)))}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// What is in it still goes back to where this process is.
		own := filepath.Join(base, "cgroup.procs")
		if text, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs")); err == nil {
			for pid := range strings.FieldsSeq(string(text)) {
				os.WriteFile(own, []byte(pid), 0)
			}
		}
		os.Remove(g.dir)
	})
	return g
}

func (g cgroup) write(name string, value int) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(strconv.Itoa(value)), 0); err != nil {
		g.t.Fatal(err)
	}
}

// memoryLimit is the file with the limit.
func (g cgroup) memoryLimit() string {
	if _, err := os.Stat(filepath.Join(g.dir, "memory.max")); err == nil {
		return "memory.max"
	}
	return "memory.limit_in_bytes"
}

// oomKills is how many processes the kernel has killed in it.
func (g cgroup) oomKills() (n int) {
	for _, name := range []string{"memory.events", "memory.oom_control"} {
		text, _ := os.ReadFile(filepath.Join(g.dir, name))
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "oom_kill "); ok {
				fmt.Sscan(rest, &n)
			}
		}
	}
	return n
}
