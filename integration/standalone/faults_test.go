package standalone

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// The service is killed under load, again and again: its socket stays open, and nobody is refused.
func TestServiceKilled(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	client := s.loaded(4)
	for n := range 5 {
		was := s.live()
		if err := unix.Kill(was.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		s.until("another one", func(st *control.Status) bool {
			return live(st) != nil && live(st).PID != was.PID && len(st.Generations) == 1 && st.Current == nil
		})
		if err := client.Answered(t.Context(), 100*(n+1)); err != nil {
			t.Fatal(err)
		}
	}
	result := client.Stop()
	t.Logf("%s", describeLoad(result))
	if n := result.Count(load.Refused); n > 0 {
		t.Errorf("%d connections were refused", n)
	}
	if dead := s.zombies(); len(dead) > 0 {
		t.Errorf("zombies: %v", dead)
	}
}

// The new version ends by itself at any moment around the cutover: whatever becomes of the handoff, one version serves, and nobody is
// refused.
func TestExitsAroundTheCutover(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	client := s.loaded(4)
	outcomes := map[string]int{}
	for range 20 {
		after := time.Duration(rand.IntN(80)) * time.Millisecond // from its start, which takes about half of that
		r := s.reloadTo(tested("bad", fmt.Sprintf("-exit-after=%s", after)))
		status, _, stderr := r.wait()
		step := "live"
		if status != 0 {
			_, step, _ = strings.Cut(stderr, "failed at step ")
			step, _, _ = strings.Cut(step, ":")
		}
		outcomes[step]++
		// One that was live for a moment is started again, and ends again, until there is a better one.
		s.reloadTo(tested("good")).must()
		s.settled()
	}
	result := client.Stop()
	t.Logf("the bad versions came as far as %v; %s", outcomes, describeLoad(result))
	if n := result.Count(load.Refused); n > 0 {
		t.Errorf("%d connections were refused", n)
	}
	if dead := s.zombies(); len(dead) > 0 {
		t.Errorf("zombies: %v", dead)
	}
}

// A version with a tree of 200 processes that ignore SIGTERM, half of them in sessions of their own, is gone when it was replaced, and
// so is the next one when the supervisor stops.
func TestBigTree(t *testing.T) {
	t.Parallel()
	big := func(version string) configuration {
		return tested(version, "-tree=100", "-tree-setsid").with("[drain]\ntimeout = \"2s\"\n")
	}
	s := start(t, big("v0"))
	old := s.live()
	if st, err := s.client.Status(t.Context()); err != nil || st.Generations[0].Processes < 201 {
		t.Fatalf("%+v, %v", st, err)
	}
	s.reloadTo(big("v1")).must()
	if now := s.settled(); now.PID == old.PID {
		t.Error("the old one is live")
	}
	if n := len(s.descendants()); n != 201 {
		t.Errorf("%d processes are there, and not those of one version: %v", n, s.descendants())
	}
	s.signal(unix.SIGTERM)
	if status := s.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if left := s.descendants(); len(left) > 0 {
		t.Errorf("%d processes are left: %v", len(left), left)
	}
}

// Where the supervisor may not open more descriptors, a handoff fails with the reason and changes nothing, and once it may, it can.
func TestDescriptorLimit(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	before := s.settled()
	client := s.loaded(2)
	limit := func(soft uint64) {
		t.Helper()
		var old unix.Rlimit
		if err := unix.Prlimit(s.pid(), unix.RLIMIT_NOFILE, nil, &old); err != nil {
			t.Fatal(err)
		}
		if err := unix.Prlimit(s.pid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: soft, Max: old.Max}, nil); err != nil {
			t.Fatal(err)
		}
	}
	limit(uint64(s.descriptors()) + 4) // for the connection of the one who asks, and a file or two
	s.reloadTo(tested("v1")).mustFail("too many open files")
	limit(1024)
	s.only(before)
	s.reloadTo(tested("v1")).must()
	s.settled()
	mustLoseNothing(t, client)
}

// Where the state file cannot be written, since the file system is full, handoffs go on, and the log says what that may cost, and when
// it is over.
func TestFullRuntimeDirectory(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	run := filepath.Join(dir, "run")
	mountSmall(t, run)
	c := tested("v0")
	c.dir = dir
	s := start(t, c)
	client := s.loaded(2)
	fill := filepath.Join(run, "fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	f.Close()
	c.command = tested("v1").command
	s.reloadTo(c).must()
	if err := client.Version(t.Context(), "v1"); err != nil {
		t.Fatal(err)
	}
	s.settled()
	if !strings.Contains(s.log.String(), "cannot write the state file") || !strings.Contains(s.log.String(), "no space left") {
		t.Errorf("the log says\n%s", s.log)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	c.command = tested("v2").command
	s.reloadTo(c).must()
	s.settled()
	if !strings.Contains(s.log.String(), "the state file can be written again") {
		t.Errorf("the log says\n%s", s.log)
	}
	mustLoseNothing(t, client)
}

// A thousand connections to the control socket at once, with requests that are half sent, huge, or whole: others are answered, no
// wrong thing is done, and memory stays bounded.
func TestControlStorm(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	before, resident := s.settled(), s.resident()
	requests := []string{
		"", "GET", "POST /v1/reload HTTP/1.1\r\nHost: x\r\nContent-Le", "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v1/status HTTP/1.1\r\nX: " + strings.Repeat("x", 64<<10), "POST /v1/reload?since=x HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /v1/reload HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", "\x00\x01\x02\r\n\r\n", "DELETE /v1/upgrade HTTP/1.1\r\nHost: x\r\n\r\n",
	}
	var all sync.WaitGroup
	release := make(chan struct{})
	for n := range 1000 {
		all.Add(1)
		go func() {
			defer all.Done()
			c, err := net.Dial("unix", s.control())
			if err != nil {
				return
			}
			defer c.Close()
			c.Write([]byte(requests[n%len(requests)]))
			<-release
		}()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 20 {
		if _, err := s.client.Status(ctx); err != nil {
			t.Fatal(err)
		}
	}
	most := 96 << 10 // KiB: some 50 for each connection
	if racing {
		most *= 5 // the race detector needs more for each
	}
	if now := s.resident(); now > resident+most {
		t.Errorf("%d KiB are resident, and were %d", now, resident)
	}
	close(release)
	all.Wait()
	s.only(before)
	s.reloadTo(tested("v1")).must()
	s.settled()
}

// Strangers who write to a generation's notify socket, as fast as they can, whatever they like, change nothing: it is not ready before
// it says so itself.
func TestNotifyStorm(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	before, resident := s.settled(), s.resident()
	r := s.reloadTo(tested("v1", "-never-ready").with("[ready]\ntimeout = \"4s\"\n"))
	var path string
	s.until("the notify socket of the new one", func(*control.Status) bool {
		path = filepath.Join(s.dir, "run", fmt.Sprintf("notify.%d", before.Number+1))
		_, err := os.Stat(path)
		return err == nil
	})
	over := make(chan struct{})
	var all sync.WaitGroup
	sent := make([]int, 2)
	for n := range sent {
		all.Add(1)
		go func() {
			defer all.Done()
			c, err := net.Dial("unixgram", path)
			if err != nil {
				return
			}
			defer c.Close()
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
				message := [][]byte{[]byte("READY=1"), make([]byte, 64<<10), []byte("READY=1\x00"), []byte("MAINPID=1\nSTOPPING=1"), []byte("EXTEND_TIMEOUT_USEC=3600000000")}[i%5]
				if _, err := c.Write(message); err == nil {
					sent[n]++
				}
			}
		}()
	}
	r.mustFail("READY=1")
	close(over)
	all.Wait()
	t.Logf("%v datagrams", sent)
	if sent[0]+sent[1] < 1000 {
		t.Error("inconclusive: hardly anything was sent")
	}
	if now := s.resident(); now > resident+64<<10 {
		t.Errorf("%d KiB are resident, and were %d", now, resident)
	}
	s.only(before)
}

// mountSmall makes a directory that has room for next to nothing, until the test is over.
func mountSmall(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root")
		}
		t.Skip("needs root: mounts a file system")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
}
