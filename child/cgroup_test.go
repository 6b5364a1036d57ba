package child_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// ownCgroup returns the directory of this process's cgroup in the version 2
// hierarchy.
func ownCgroup(t testing.TB) (mount, inner string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, " - cgroup2 ") {
			mount = strings.Fields(line)[4]
		}
	}
	if mount == "" {
		t.Skip("there is no cgroup version 2 hierarchy")
	}
	if b, err = os.ReadFile("/proc/self/cgroup"); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if at, ok := strings.CutPrefix(line, "0::"); ok {
			inner = strings.TrimSpace(at)
		}
	}
	return mount, inner
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0); err != nil {
		t.Fatal(err)
	}
}

// delegate moves this process into a cgroup of its own that is marked as delegated,
// and back in the end.
func delegate(t testing.TB, attribute string) string {
	t.Helper()
	mount, inner := ownCgroup(t)
	before := filepath.Join(mount, inner)
	dir := filepath.Join(before, fmt.Sprintf("child-test-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self := strconv.Itoa(os.Getpid())
	t.Cleanup(func() {
		write(t, filepath.Join(before, "cgroup.procs"), self)
		os.Remove(filepath.Join(dir, "supervisor"))
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	if attribute != "" {
		if err := unix.Setxattr(dir, attribute, []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "cgroup.procs"), self)
	return dir
}

func TestDelegation(t *testing.T) {
	needRoot(t)
	if !alone(t) {
		return
	}
	for _, attribute := range []string{"", "trusted.delegate", "user.delegate"} {
		t.Run(attribute, func(t *testing.T) {
			dir := delegate(t, attribute)
			d, err := child.OpenDelegation()
			if err != nil {
				t.Fatal(err)
			}
			if attribute == "" {
				if d != nil {
					t.Errorf("found %s, which was not delegated", d.Path())
				}
				return
			}
			if d == nil || d.Path() != dir {
				t.Fatalf("found %v, want %s", d, dir)
			}
			mount, inner := ownCgroup(t)
			if got := filepath.Join(mount, inner); got != filepath.Join(dir, "supervisor") {
				t.Errorf("we are in %s", got)
			}
			again, err := child.OpenDelegation()
			if err != nil || again == nil || again.Path() != dir {
				t.Errorf("the second time: %v, %v", again, err)
			}
		})
	}
}

// start in a cgroup, whether by clone3 or not.
func testCgroup(t *testing.T) {
	delegate(t, "trusted.delegate")
	d, err := child.OpenDelegation()
	if err != nil || d == nil {
		t.Fatal(d, err)
	}
	r, err := child.NewReaper(child.ReaperOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, name := range []string{"", "a/b", "..", ".x", "supervisor"} {
		if c, err := d.New(name); err == nil {
			t.Errorf("made %s", c.Path())
		}
	}
	if _, err := d.Open("gen-1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening what is not there: %v", err)
	}
	cg, err := d.New("gen-1")
	if err != nil {
		t.Fatal(err)
	}
	// All that a scan could go by is taken away.
	c := sh(`cat /proc/self/cgroup; env -i setsid sh -c '(sleep 1000 & echo $!); echo $$; exec sleep 1000' &
		mkdir ` + cg.Path() + `/below; env -i setsid sh -c 'echo $$ > ` + cg.Path() + `/below/cgroup.procs; echo $$; exec sleep 1000' & sleep 1000`)
	c.Cgroup = cg
	out := newOutput(t)
	c.Stdout = out.write
	p, err := r.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	at := out.line(t)
	for !strings.HasPrefix(at, "0::") { // the hierarchies of version 1
		at = out.line(t)
	}
	if !strings.HasSuffix(at, "/gen-1") {
		t.Errorf("the child is in %s", at)
	}
	for range 3 {
		pid, err := strconv.Atoi(out.line(t))
		if err != nil {
			t.Fatal(err)
		}
		if !p.Tree().Contains(pid) {
			t.Errorf("the tree does not contain %d", pid)
		}
		waitFor(t, "it to be a member", func() bool { return slices.Contains(members(t, p), pid) })
	}
	if p.Tree().Contains(os.Getpid()) || p.Tree().Contains(1) {
		t.Error("the tree contains strangers")
	}
	if _, err := d.New("gen-1"); !errors.Is(err, child.ErrCgroupInUse) {
		t.Errorf("a cgroup in use: %v", err)
	}
	again, err := d.Open("gen-1")
	if err != nil || again.Name() != "gen-1" {
		t.Fatal(again, err)
	}
	if err := again.Remove(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("removing it: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := cg.Empty(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for it to be empty: %v", err)
	}
	empty := make(chan error, 2)
	go func() { empty <- cg.Empty(deadline(t)) }()
	go func() { empty <- p.Tree().Gone(deadline(t)) }()
	if err := p.Tree().Kill(deadline(t)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-empty; err != nil {
			t.Error(err)
		}
	}
	if got := members(t, p); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
	if err := cg.Remove(); err != nil {
		t.Error(err)
	}
	if err := cg.Remove(); err != nil {
		t.Errorf("again: %v", err)
	}
	if _, err := os.Stat(cg.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	waitFor(t, "nobody to be left to wait for", func() bool { return len(children(t)) == 0 })
}

func TestCgroup(t *testing.T) {
	needRoot(t)
	if alone(t) {
		testCgroup(t)
	}
}

// Under systemd's RestrictNamespaces= clone3 does not exist.
func TestCgroupWithoutClone3(t *testing.T) {
	needRoot(t)
	if alone(t) {
		forbid(t, unix.SYS_CLONE3)
		testCgroup(t)
	}
}

// Before Linux 5.11 there is no close_range that marks.
func TestNoDescriptorLeaksWithoutCloseRange(t *testing.T) {
	needRoot(t)
	if !alone(t) {
		return
	}
	forbid(t, unix.SYS_CLOSE_RANGE)
	testNoDescriptorLeaks(t)
}

// forbid makes system calls answer ENOSYS in this process and its children.
func forbid(t testing.TB, numbers ...uint32) {
	t.Helper()
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number
	for _, n := range numbers {
		program = append(program,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: n},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)})
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if err := seccomp(&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}); err != nil {
		t.Fatal(err)
	}
}
