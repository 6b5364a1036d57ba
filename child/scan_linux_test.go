package child

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// processes are a made-up snapshot.
func processes(list ...procStat) func(pid int) (procStat, bool) {
	return func(pid int) (procStat, bool) {
		for _, st := range list {
			if st.pid == pid {
				return st, true
			}
		}
		return procStat{}, false
	}
}

// The number of a session is used again, though only once the session is empty.
func TestInSession(t *testing.T) {
	t.Parallel()
	const main, start = 100, 5000
	tree := &Tree{main: &Process{id: procID{main, start}}}
	member := procStat{procID: procID{200, start + 10}, ppid: 1, session: main}
	for name, test := range map[string]struct {
		st   procStat
		rest []procStat
		want bool
	}{
		"the main process leads it":       {member, []procStat{{procID: procID{main, start}, session: main}}, true},
		"the main process has ended":      {member, nil, true},
		"another process leads it now":    {member, []procStat{{procID: procID{main, start + 5}, session: main}}, false},
		"another session":                 {procStat{procID: procID{200, start + 10}, session: 300}, nil, false},
		"older than the main process":     {procStat{procID: procID{200, start - 1}, session: main}, nil, false},
		"as old as the main process":      {procStat{procID: procID{200, start}, session: main}, nil, true},
		"a process that has its number":   {procStat{procID: procID{main, start + 5}, session: main}, []procStat{{procID: procID{main, start + 5}, session: main}}, false},
		"the main process is in no doubt": {procStat{procID: procID{main, start}, session: main}, []procStat{{procID: procID{main, start}, session: main}}, true},
	} {
		if got := tree.inSession(test.st, processes(test.rest...)); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The mark counts only on those who may be of the generation: anybody can put it
// into his environment.
func TestMarked(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.Env = []string{"A=1", "NOTIFY_SOCKET=/run/test/gen-1", "B=2"}
	uid := uint32(os.Getuid())
	if uid == 0 {
		uid = 54321
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	// exec(2) closes the pipe that Start waits for a moment before the environment can be read.
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid)); err != nil || len(b) > 0 {
			break
		}
	}
	st, err := readStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := st
	elsewhere.ppid = 1
	zombie := st
	zombie.dead = true
	tree := func(change func(*Tree)) *Tree {
		t := &Tree{main: &Process{id: procID{pid: 1 << 30, start: st.start}}, notify: "/run/test/gen-1", uid: uid}
		change(t)
		return t
	}
	for name, test := range map[string]struct {
		tree *Tree
		st   procStat
		want bool
	}{
		"of ours":                 {tree(func(*Tree) {}), st, true},
		"not below us":            {tree(func(*Tree) {}), elsewhere, false},
		"not below us, adopted":   {tree(func(t *Tree) { t.adopted = true }), elsewhere, true},
		"of another user":         {tree(func(t *Tree) { t.uid++ }), st, false},
		"of another generation":   {tree(func(t *Tree) { t.notify = "/run/test/gen-11" }), st, false},
		"a part of the mark":      {tree(func(t *Tree) { t.notify = "/run/test/gen-" }), st, false},
		"no mark":                 {tree(func(t *Tree) { t.notify = "" }), st, false},
		"older than the main one": {tree(func(t *Tree) { t.main.id.start++ }), st, false},
		"dead":                    {tree(func(*Tree) {}), zombie, false},
	} {
		if got := test.tree.marked(test.st, processes(test.st)); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
