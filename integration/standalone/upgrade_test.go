package standalone

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A reign is a supervisor whose program may be replaced on disk.
type reign struct {
	*supervisor
	path string // of the program
}

// startReign starts one from a copy of the binary under test.
func startReign(t *testing.T, c configuration) *reign {
	t.Helper()
	path := filepath.Join(shortDir(t), "zddsupervisor")
	install(t, program, path)
	c.program = path
	r := &reign{start(t, c), path}
	t.Cleanup(func() { // of the last one; the first one is the harness's
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if st, err := r.client.Status(ctx); err == nil {
			end(t, st.PID, unix.SIGQUIT)
		}
	})
	return r
}

// install puts a program in the place of another one, as package managers do.
func install(t *testing.T, program, path string) {
	t.Helper()
	// Not by this process: one that another test forks just then would have it open for writing, and it could not be executed.
	if out, err := exec.Command("cp", program, path+".new").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// installScript puts a shell script there.
func installScript(t *testing.T, text, path string) {
	t.Helper()
	if err := os.WriteFile(path+".text", []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	install(t, path+".text", path)
}

// end signals a process, and waits until it is gone.
func end(t *testing.T, pid int, sig unix.Signal) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		return
	}
	awaitEnd(t, fd)
}

// awaitEnd waits until the process behind a pidfd has ended.
func awaitEnd(t *testing.T, fd int) {
	t.Helper()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 60_000)
		if err == unix.EINTR {
			continue
		}
		if n != 1 || err != nil {
			t.Errorf("a process does not end: %v", err)
		}
		return
	}
}

// The supervisor is replaced again and again under load, now and then by a program that is broken: the service is the same process
// all along, not one request fails, and each supervisor can do all that the one before could.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"steered", "shared"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := startReign(t, configuration{command: []string{testservice, "-version=v0", "-serve=finish"},
				sockets: "[[socket]]\nname = \"main\"\nlisten = \"tcp://127.0.0.1:0\"\nmode = \"" + mode + "\"\n", more: "[upgrade]\ntimeout = \"60s\"\n"})
			before, address := r.settled(), r.address()
			client, err := load.Start(t.Context(), load.Config{Address: address, Workers: 4, Rate: backgroundRate, Duration: 5 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Stop()
			supervisors := map[int]bool{r.status().PID: true}
			for range 6 {
				was := r.status().PID
				s, err := r.client.Upgrade(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				st := r.status()
				if s.Was != was || s.PID != st.PID || supervisors[s.PID] {
					t.Errorf("process %d was followed by %+v, and %d answers", was, s, st.PID)
				}
				supervisors[s.PID] = true
				if now := live(st); now == nil || now.PID != before.PID || now.Number != before.Number || len(st.Generations) != 1 {
					t.Fatalf("the generations are %+v, and were %+v", st.Generations, before)
				}
				if err := client.Answered(t.Context(), 200); err != nil {
					t.Fatal(err)
				}
			}
			r.reloadTo(configuration{command: []string{testservice, "-version=v1", "-serve=finish"},
				sockets: "[[socket]]\nname = \"main\"\nlisten = \"tcp://127.0.0.1:0\"\nmode = \"" + mode + "\"\n"}).must()
			if err := client.Version(t.Context(), "v1"); err != nil {
				t.Fatal(err)
			}
			if n := r.settled().Number; n != before.Number+1 {
				t.Errorf("generation %d is live", n)
			}
			result := client.Stop()
			t.Logf("%s", describeLoad(result))
			if result.Failed() > 0 {
				t.Errorf("%d requests failed", result.Failed())
			}
		})
	}
}

// status asks the supervisor.
func (s *supervisor) status() *control.Status {
	s.t.Helper()
	st, err := s.client.Status(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

// A program that is broken in some way leaves the supervisor that runs in charge, which says why; and then one that is not replaces
// it.
func TestBrokenUpgrade(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, script, want string
	}{
		{"is not there", "", "no such file"},
		{"is no program", "garbage", "exec format error"},
		{"ends at once", "#!/bin/sh\nexit 7\n", "exit status 7"},
		{"ends as if all was well", "#!/bin/sh\nexit 0\n", "exited"},
		{"crashes", "#!/bin/sh\nkill -SEGV $$\n", "segmentation fault"},
		{"hangs", "#!/bin/sh\nexec sleep 1000\n", "timed out"},
		{"hangs in a child", "#!/bin/sh\nsleep 1000\n", "timed out"},
		{"leaves a child", "#!/bin/sh\n(setsid sleep 1000 &)\nexit 9\n", "exit status 9"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := tested("v0").with("[upgrade]\ntimeout = \"3s\"\n")
			r := startReign(t, c)
			before, supervisor := r.settled(), r.status().PID
			client := r.loaded(2)
			defer client.Stop()
			if tc.script == "" {
				if err := os.Remove(r.path); err != nil {
					t.Fatal(err)
				}
			} else {
				installScript(t, tc.script, r.path)
			}
			_, err := r.client.Upgrade(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "goes on") {
				t.Errorf("the error is %v, want %q in it", err, tc.want)
			}
			st := r.status()
			if now := live(st); st.PID != supervisor || now == nil || now.PID != before.PID {
				t.Errorf("process %d answers, and %+v is live", st.PID, now)
			}
			if left := r.descendants(); len(left) != 1 {
				t.Errorf("there are %v, and not the service alone", left)
			}
			r.reloadTo(tested("v1").with("[upgrade]\ntimeout = \"3s\"\n")).must()
			install(t, program, r.path)
			if s, err := r.client.Upgrade(t.Context()); err != nil || r.status().PID != s.PID {
				t.Errorf("by one that works: %+v, %v", s, err)
			}
			if result := client.Stop(); result.Failed() > 0 {
				t.Errorf("%s", describeLoad(result))
			}
		})
	}
}

// One that has said that it could take over, and then cannot, has cost nothing: the supervisor before it takes everything back.
func TestUpgradeFailsLate(t *testing.T) {
	t.Parallel()
	sockets := "[[socket]]\nname = \"main\"\nlisten = \"tcp://127.0.0.1:0\"\n" // the other ones are there to be too many
	for n := range 40 {
		sockets += fmt.Sprintf("[[socket]]\nname = \"n%d\"\nlisten = \"tcp://127.0.0.1:0\"\n", n)
	}
	c := tested("v0")
	c.sockets = sockets
	r := startReign(t, c)
	before, supervisor := r.settled(), r.status().PID
	client := r.loaded(2)
	defer client.Stop()
	installScript(t, "#!/bin/sh\nulimit -n 32\nexec \""+program+"\" \"$@\"\n", r.path)
	if _, err := r.client.Upgrade(t.Context()); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("the error is %v", err)
	}
	if st := r.status(); live(st) == nil || live(st).PID != before.PID || st.PID != supervisor {
		t.Errorf("the status is %+v", st)
	}
	c.command = tested("v1").command
	r.reloadTo(c).must()
	installScript(t, "#!/bin/sh\nexec \""+program+"\" \"$@\"\n", r.path)
	if s, err := r.client.Upgrade(t.Context()); err != nil || r.status().PID != s.PID {
		t.Errorf("through a script that does no harm: %+v, %v", s, err)
	}
	mustLoseNothing(t, client)
}

// A successor that is killed at any moment has cost nothing.
func TestSuccessorKilled(t *testing.T) {
	t.Parallel()
	r := startReign(t, tested("v0"))
	before := r.settled()
	client := r.loaded(2)
	defer client.Stop()
	came := map[string]int{}
	for range 20 {
		supervisor := r.status().PID
		done := make(chan error, 1)
		go func() {
			_, err := r.client.Upgrade(t.Context())
			done <- err
		}()
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond) // not to wait for anything: to hit any moment
		for _, pid := range childrenOf(t, supervisor) {
			if exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe"); err == nil && exe == r.path {
				end(t, pid, unix.SIGKILL)
				came["killed"]++
			}
		}
		err := <-done
		if err == nil && !r.there() { // it was the supervisor by then
			came["killed as the supervisor"]++
			r.again()
		}
		st := r.status()
		if now := live(st); now == nil || now.PID != before.PID || (st.PID == supervisor) != (err != nil) {
			t.Fatalf("the upgrade: %v; process %d was followed by %d; live is %+v", err, supervisor, st.PID, now)
		}
		if err == nil {
			came["replaced"]++
		}
	}
	t.Log(came)
	if came["killed"] == 0 {
		t.Error("inconclusive: no successor was killed")
	}
	mustLoseNothing(t, client)
}

// answers reports whether there is a supervisor.
func (r *reign) there() bool {
	_, err := r.client.Status(r.t.Context())
	return err == nil
}

// again starts another supervisor in the place of one that has died, and waits until it answers.
func (r *reign) again() {
	r.t.Helper()
	cmd := exec.Command(r.path, "run", "--config", filepath.Join(r.dir, "test.toml"))
	cmd.Stdout, cmd.Stderr = r.output, r.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	r.cmd, r.exited = cmd, ended
	for !r.there() {
		select {
		case <-ended:
			r.t.Fatalf("it has ended: %s", r.log)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// childrenOf returns a process's children.
func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var state string
		var parent int
		fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &state, &parent)
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && parent == pid {
			children = append(children, child)
		}
	}
	return children
}

// A supervisor that drains an old generation is replaced in the middle of it: the old one ends as it should.
func TestUpgradeWhileDraining(t *testing.T) {
	t.Parallel()
	over := filepath.Join(t.TempDir(), "over")
	r := startReign(t, tested("v0"))
	answer := r.askSlowly("v0", over)
	r.reloadTo(tested("v1")).must()
	r.draining(1, 1)
	s, err := r.client.Upgrade(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	st := r.draining(1, 1)
	if st.PID != s.PID || live(st) == nil || len(st.Generations) != 2 {
		t.Errorf("the status is %+v", st)
	}
	if err := os.WriteFile(over, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; got != "v0" {
		t.Errorf("the long request: %s", got)
	}
	r.settled()
}

// While a handoff is under way the supervisor is not replaced.
func TestUpgradeInAHandoff(t *testing.T) {
	t.Parallel()
	r := startReign(t, tested("v0"))
	supervisor := r.status().PID
	reloading := r.reloadTo(tested("v1").with("[handoff]\nsoak = \"1h\"\n"))
	r.at(upgrade.Soaking)
	if _, err := r.client.Upgrade(t.Context()); err == nil || !strings.Contains(err.Error(), upgrade.ErrBusy.Error()) {
		t.Errorf("in a handoff: %v", err)
	}
	if pid := r.status().PID; pid != supervisor {
		t.Errorf("process %d answers", pid)
	}
	r.promote()
	reloading.must()
}

// What is asked of a supervisor while it is being replaced is done by the one that follows it.
func TestAskedWhileReplaced(t *testing.T) {
	t.Parallel()
	for _, sig := range []unix.Signal{unix.SIGHUP, unix.SIGTERM, unix.SIGQUIT} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			r := startReign(t, tested("v0"))
			before := r.settled()
			began := func() int { return strings.Count(r.log.String(), "leaving the service") }
			for n := range 20 { // until the signal has come at the right moment
				st, err := r.client.Status(t.Context())
				if n > 0 && (err != nil || st.Phase == upgrade.Stopping.String()) {
					break // the one that came late was obeyed all the same
				}
				if err != nil {
					t.Fatal(err)
				}
				supervisor := st.PID
				done := make(chan error, 1)
				go func() {
					_, err := r.client.Upgrade(t.Context())
					done <- err
				}()
				for began() == n {
					time.Sleep(100 * time.Microsecond)
				}
				sent := unix.Kill(supervisor, sig)
				// One that has ended can be signalled as well, until it is waited for.
				inTime := sent == nil && strings.Count(r.log.String(), "msg=replaced") == n
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if inTime {
					break
				}
				if n == 19 {
					t.Skip("inconclusive: the signal has never come in time")
				}
			}
			if sig == unix.SIGHUP {
				r.until("a handoff", func(st *control.Status) bool {
					return live(st) != nil && live(st).PID != before.PID && st.Current == nil
				})
				return
			}
			r.wait() // for all who have its output
			if left := r.descendants(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// A program that reads another version of the state does not take over: the supervisor that runs goes on, and says why.
func TestUpgradeToAnotherState(t *testing.T) {
	t.Parallel()
	other := buildOther(t, "upgrade/saved.go", "const savedVersion = 1\n", "const savedVersion = 999\n")
	r := startReign(t, tested("v0"))
	before, supervisor := r.settled(), r.status().PID
	client := r.loaded(2)
	install(t, other, r.path)
	_, err := r.client.Upgrade(t.Context())
	if err == nil || !strings.Contains(err.Error(), "it has version 1, and this supervisor reads 999") || !strings.Contains(err.Error(), "goes on") {
		t.Errorf("the error is %v", err)
	}
	if pid := r.status().PID; pid != supervisor {
		t.Errorf("process %d answers", pid)
	}
	r.only(before)
	r.reloadTo(tested("v1")).must()
	r.settled()
	install(t, program, r.path)
	if s, err := r.client.Upgrade(t.Context()); err != nil || r.status().PID != s.PID {
		t.Errorf("by one that reads it: %+v, %v", s, err)
	}
	mustLoseNothing(t, client)
}

// buildOther builds the program with another text in one of its files, and returns its path.
func buildOther(t *testing.T, file, was, is string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), was, is, 1)
	if changed == string(text) {
		t.Fatalf("%s has no %q", file, was)
	}
	dir := t.TempDir()
	path, overlay, other := filepath.Join(dir, "zddsupervisor"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "other.go")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: other}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(other, []byte(changed), 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", path, "../../cmd/zddsupervisor").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}
