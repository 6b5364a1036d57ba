package standalone

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// unixSocket is a socket at a path that no other test uses.
func unixSocket(t *testing.T) string {
	return fmt.Sprintf("[[socket]]\nname = \"main\"\nlisten = \"unix://%s/s.sock\"\n", shortDir(t))
}

// loadedAt begins a load on the first socket, of whatever kind it is.
func (s *supervisor) loadedAt(workers int) *load.Client {
	s.t.Helper()
	network, address := "tcp", s.address()
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		network, address = "unix", path
	}
	client, err := load.Start(s.t.Context(), load.Config{Network: network, Address: address, Workers: workers, Rate: backgroundRate, Duration: 2 * time.Minute})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { client.Stop() })
	return client
}

// shutDown calls shutdown(2) on a socket that a process listens on, as any that has it can.
func shutDown(t *testing.T, pid int) {
	t.Helper()
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(process)
	for number := 3; number < 32; number++ {
		fd, err := unix.PidfdGetfd(process, number, 0)
		if err != nil {
			continue
		}
		defer unix.Close(fd)
		if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || listens == 0 {
			continue
		}
		if err := unix.Shutdown(fd, unix.SHUT_RDWR); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("process %d listens on nothing", pid)
}

// A process shuts the socket of the live version down: another generation of it takes its place by itself, and clients are answered
// again; each time.
func TestShutDownWhileLive(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for name, sockets := range map[string]string{"steered": steeredSocket, "unix": unixSocket(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := configuration{command: []string{testservice, "-version=v0"}}
			c.sockets = "[handoff]\nsoak = \"1h\"\n[drain]\ntimeout = \"1s\"\n" + sockets
			s := start(t, c)
			client := s.loadedAt(2)
			for n := 1; n <= 3; n++ {
				was := s.settled()
				shutDown(t, was.PID)
				st := s.until("another generation", func(st *control.Status) bool {
					return live(st) != nil && live(st).Number > was.Number && st.Current == nil
				})
				if now := live(st); now.Number != was.Number+1 || st.Last.From != was.Number || !st.Last.Restart || len(now.Deaf) > 0 {
					t.Errorf("the status is %+v, the last handoff %+v", st, st.Last)
				}
				if st.Sockets[0].Repaired != n {
					t.Errorf("repaired: %d, after %d times", st.Sockets[0].Repaired, n)
				}
				if err := client.Answered(t.Context(), 100); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("%s", describeLoad(client.Stop()))
			if n := strings.Count(s.log.String(), "nobody gets to the live generation any more"); n != 3 {
				t.Errorf("it was said %d times", n)
			}
		})
	}
}

// An old version shuts the unix socket down when it is told to stop: the new one is followed by another one that is reached, and clients
// wait meanwhile.
func TestShutDownByTheOldOne(t *testing.T) {
	t.Parallel()
	c := configuration{command: []string{testservice, "-version=v0", "-shutdown-sockets"}, sockets: unixSocket(t)}
	s := start(t, c)
	client := s.loadedAt(2)
	c.command = []string{testservice, "-version=v1"}
	s.reloadTo(c).must()
	s.until("a third generation", func(st *control.Status) bool {
		return len(st.Generations) == 1 && live(st) != nil && live(st).Number == 3
	})
	if err := client.Version(t.Context(), "v1"); err != nil {
		t.Fatal(err)
	}
	if err := client.Answered(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	c.command = []string{testservice, "-version=v2"}
	s.reloadTo(c).must()
	if n := s.settled().Number; n != 4 {
		t.Errorf("generation %d is live", n)
	}
	if err := client.Version(t.Context(), "v2"); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", describeLoad(client.Stop()))
}

// One that does it again and again is not replaced without a pause, and a better one takes its place.
func TestShutDownForEver(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0", "-shutdown-after=200ms"))
	began := time.Now()
	st := s.until("some of it", func(st *control.Status) bool { return st.Handoffs >= 7 })
	if took := time.Since(began); took < 3*time.Second { // 0, 0.1, 0.2, 0.4, 0.8, 1.6 s, and a look a second
		t.Errorf("%d handoffs in %s", st.Handoffs, took)
	}
	s.reloadTo(tested("v1")).must()
	if now := s.settled(); len(now.Deaf) > 0 {
		t.Errorf("%+v", now)
	}
	s.allBy("v1")
}
