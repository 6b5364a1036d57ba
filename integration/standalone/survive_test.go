package standalone

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// Without systemd nobody keeps the sockets of a supervisor that is killed, but the service has them: one that is started in its place
// takes both over. The service is the same process, no request fails, and the next handoff is like any other.
func TestKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"steered", "shared", "unix"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := configuration{command: []string{testservice, "-version=v0", "-serve=finish"}}
			if kind == "unix" {
				c.sockets = fmt.Sprintf("[[socket]]\nname = \"main\"\nlisten = \"unix://%s/s.sock\"\n", shortDir(t))
			} else {
				c.sockets = fmt.Sprintf("[[socket]]\nname = \"main\"\nlisten = \"tcp://127.0.0.1:0\"\nmode = %q\n", kind)
			}
			r := startReign(t, c)
			before := r.settled()
			network, address := "tcp", r.address()
			if kind == "unix" {
				network, address = "unix", strings.TrimPrefix(address, "unix://")
			}
			client, err := load.Start(t.Context(), load.Config{Network: network, Address: address, Workers: 4, Rate: backgroundRate, Duration: 5 * time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Stop()
			for n := range 3 {
				end(t, r.status().PID, unix.SIGKILL)
				if err := client.Answered(t.Context(), 200*(n+1)); err != nil { // with no supervisor there
					t.Fatal(err)
				}
				r.again()
				st := r.until("the generation", func(st *control.Status) bool { return live(st) != nil })
				if now := live(st); now.PID != before.PID || now.Number != before.Number || len(st.Generations) != 1 {
					t.Fatalf("the generations are %+v, and were %+v", st.Generations, before)
				}
				if got := st.Sockets[0]; string(got.Mode) != strings.Replace(kind, "unix", "shared", 1) || got.Error != "" {
					t.Errorf("the socket is %+v", got)
				}
			}
			c.command = []string{testservice, "-version=v1", "-serve=finish"}
			r.reloadTo(c).must()
			if err := client.Version(t.Context(), "v1"); err != nil {
				t.Fatal(err)
			}
			r.settled()
			if result := client.Stop(); result.Failed() > 0 {
				t.Errorf("%s", describeLoad(result))
			}
		})
	}
}

// A service that has died with its supervisor is started anew, on sockets that are bound anew: the log says what could not be kept.
func TestAllKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	r := startReign(t, tested("v0"))
	st := r.status()
	end(t, st.PID, unix.SIGKILL)
	end(t, live(st).PID, unix.SIGKILL)
	r.again()
	now := r.until("a live generation", func(st *control.Status) bool { return live(st) != nil })
	if live(now).Number <= live(st).Number {
		t.Errorf("generation %d is live", live(now).Number)
	}
	if !strings.Contains(r.log.String(), "could not be kept") {
		t.Error("the log does not say that a socket was lost")
	}
}

// A state file that names the process of somebody else, who has got the number since, does not touch that process.
func TestStalePID(t *testing.T) {
	t.Parallel()
	r := startReign(t, tested("v0"))
	st := r.status()
	end(t, st.PID, unix.SIGKILL)
	end(t, live(st).PID, unix.SIGKILL)
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		other.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		other.Process.Kill()
		<-ended
	})
	path := filepath.Join(r.dir, "run", "state.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stale := strings.Replace(string(text), fmt.Sprintf(`"pid":%d`, live(st).PID), fmt.Sprintf(`"pid":%d`, other.Process.Pid), 1)
	if stale == string(text) {
		t.Fatal("the state file does not name the service's process")
	}
	if err := os.WriteFile(path, []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	r.again()
	now := r.until("a live generation", func(st *control.Status) bool { return live(st) != nil })
	if live(now).PID == other.Process.Pid || live(now).Number == live(st).Number {
		t.Errorf("%+v is live", live(now))
	}
	r.reloadTo(tested("v1")).must()
	r.settled()
	select {
	case <-ended:
		t.Error("the other process has ended")
	default:
	}
}

// Without systemd and without a state file the service cannot be taken over, and is in the way: who starts a supervisor is told what it
// is that has the address.
func TestOrphanIsNamed(t *testing.T) {
	t.Parallel()
	r := startReign(t, tested("v0"))
	st, was := r.status(), r.settled()
	c := tested("v0")
	c.sockets = strings.Replace(c.sockets, "127.0.0.1:0", r.address(), 1)
	c.write(t, r.dir)
	end(t, st.PID, unix.SIGKILL)
	if err := os.Remove(filepath.Join(r.dir, "run", "state.json")); err != nil {
		t.Fatal(err)
	}
	status, _, stderr := command(t, "run", "--config", filepath.Join(r.dir, "test.toml"))
	if status != 2 || !strings.Contains(stderr, "in use by the service itself") || !strings.Contains(stderr, fmt.Sprintf("kill %d)", was.PID)) {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	end(t, was.PID, unix.SIGTERM)
	r.again()
	r.settled()
}

// The disk with the state directory has become read-only when the supervisor is killed: that is said, and the service is taken over all
// the same.
func TestReadOnlyStateDirectory(t *testing.T) {
	t.Parallel()
	needRoot(t)
	r := startReign(t, tested("v0"))
	was := r.settled()
	client := r.loaded(2)
	disk, path := filepath.Join(r.dir, "disk"), filepath.Join(r.dir, "test.toml")
	if err := os.Mkdir(disk, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	moved := strings.Replace(string(text), filepath.Join(r.dir, "state"), filepath.Join(disk, "state"), 1)
	if err := os.WriteFile(path, []byte(moved), 0o600); err != nil {
		t.Fatal(err)
	}
	end(t, r.status().PID, unix.SIGKILL)
	r.again()
	r.only(was)
	if !strings.Contains(r.log.String(), "the state directory cannot be made") || !strings.Contains(r.log.String(), "read-only file system") {
		t.Errorf("the log says\n%s", r.log)
	}
	if status, _, stderr := r.reload(); status != 0 {
		t.Errorf("reload: exit status %d: %s", status, stderr)
	}
	r.settled()
	mustLoseNothing(t, client)
}
