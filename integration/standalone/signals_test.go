package standalone

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
)

// 1000 SIGHUPs in a second: one warms at most, and what is live in the end was started after the last of them.
func TestManyHangups(t *testing.T) {
	t.Parallel()
	s := start(t, configuration{mode: "v1"})
	go func() {
		for range 50 { // nobody sees more than one generation warm
			st, err := s.client.Status(context.Background())
			if err != nil {
				return
			}
			warming := 0
			for _, g := range st.Generations {
				if g.Role == "new" {
					warming++
				}
			}
			if warming > 1 {
				t.Errorf("%d generations warm at once", warming)
			}
		}
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := range 1000 {
		<-tick.C
		if i == 999 {
			configuration{mode: "newest"}.write(t, s.dir)
		}
		s.signal(unix.SIGHUP)
	}
	s.until("the newest version", func(st *control.Status) bool {
		return live(st) != nil && st.Current == nil && !st.Waiting && s.ask("tcp", s.address()).Version == "newest"
	})
	s.settled()
	if z := s.zombies(); len(z) > 0 {
		t.Errorf("zombies: %v", z)
	}
}

// HUP and then TERM, at every distance that there is: it ends, in order, and nothing is left.
func TestHangupThenTerm(t *testing.T) {
	t.Parallel()
	for i := range 24 {
		s := start(t, configuration{mode: "v1"})
		s.signal(unix.SIGHUP)
		// From the same moment to well into the handoff; a tenth of a millisecond here, some later.
		time.Sleep(time.Duration(rand.IntN(1+i*i*100)) * time.Microsecond)
		s.signal(unix.SIGTERM)
		if status := s.wait(); status != 0 {
			t.Errorf("exit status %d:\n%s", status, s.log)
		}
		if left := s.descendants(); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// Every way to end it, with a service that does not want to.
func TestEndings(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		signal unix.Signal
		atMost time.Duration
	}{
		{unix.SIGTERM, 10 * time.Second},
		{unix.SIGINT, 10 * time.Second},
		{unix.SIGQUIT, 5 * time.Second}, // at once: does not wait for the drain limit
	} {
		t.Run(tc.signal.String(), func(t *testing.T) {
			t.Parallel()
			limit := "[drain]\ntimeout = \"2s\"\n"
			if tc.signal == unix.SIGQUIT {
				limit = "[drain]\ntimeout = \"1h\"\n"
			}
			s := start(t, configuration{mode: "v1:stubborn", sockets: limit + "[[socket]]\nlisten = \"tcp://127.0.0.1:0\"\n"})
			began := time.Now()
			s.signal(tc.signal)
			if status := s.wait(); status != 0 {
				t.Errorf("exit status %d", status)
			}
			if took := time.Since(began); took > tc.atMost {
				t.Errorf("took %s", took)
			}
			if left := s.descendants(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if _, err := os.Stat(s.control()); err == nil {
				t.Error("the control socket is left")
			}
		})
	}
}

// Somebody signals the supervisor and every process of it, as `systemctl kill` does: the service dies of the signal,
// which counts as a crash, and the handoff goes on.
func TestEverybodySignalled(t *testing.T) {
	t.Parallel()
	s := start(t, configuration{mode: "v1"})
	was := s.settled()
	s.signal(unix.SIGHUP)
	if err := unix.Kill(was.PID, unix.SIGHUP); err != nil { // a generation of ours, live a moment ago
		t.Fatal(err)
	}
	s.until("a later generation", func(st *control.Status) bool {
		return live(st) != nil && live(st).Number > was.Number && st.Current == nil
	})
	if now := s.settled(); s.ask("tcp", s.address()).PID != now.PID {
		t.Error("another process than the live one answers")
	}
	if z := s.zombies(); len(z) > 0 {
		t.Errorf("zombies: %v", z)
	}
}

// As pid 1 of a pid namespace, as in a container: LISTEN_PID is what the service sees, strangers are reaped, TERM ends it.
func TestPID1(t *testing.T) {
	t.Parallel()
	needRoot(t)
	// A process whose parent has ended becomes a child of pid 1.
	orphans := `for i in 1 2 3 4 5; do (sh -c 'exit 0' &) ; done; exec "$0" "$@"`
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := launch(t, configuration{mode: "v1", command: []string{"/bin/sh", "-c", orphans, self}},
		"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
	st := s.until("a live generation", func(st *control.Status) bool { return live(st) != nil && st.Current == nil })
	if st.PID != 1 {
		t.Errorf("the supervisor is pid %d", st.PID)
	}
	r := s.ask("tcp", s.address())
	if r.ListenPID != fmt.Sprint(r.PID) || r.PPID != 1 {
		t.Errorf("LISTEN_PID is %s, the service's pid %d, its parent %d", r.ListenPID, r.PID, r.PPID)
	}
	s.until("strangers reaped", func(st *control.Status) bool { return st.Strays >= 5 })
	if status, _, stderr := s.reload(); status != 0 {
		t.Errorf("reload: %s", stderr)
	}
	// unshare passes no signals on; the supervisor is its only child.
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", s.pid(), s.pid()))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(children), &pid); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.wait()
	if !strings.Contains(s.log.String(), "msg=stopped") {
		t.Errorf("it did not stop in order:\n%s", s.log)
	}
}

// needRoot skips a test that cannot be had otherwise; under CI that is a failure.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("needs root")
	}
	t.Skip("needs root: makes a pid namespace")
}

// A storm of one signal does not make another be missed.
func TestStormThenTerm(t *testing.T) {
	t.Parallel()
	s := start(t, configuration{mode: "v1"})
	for range 400 {
		s.signal(unix.SIGUSR1)
		s.signal(unix.SIGHUP)
	}
	s.signal(unix.SIGTERM)
	if status := s.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}
