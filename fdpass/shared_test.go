package fdpass

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSharedGenerations(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, "tcp://127.0.0.1:0?mode=shared")
	first, err := s.Join(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Join(2, 1)
	if err != nil {
		t.Fatal(err)
	}
	// A connection that waits is there for either.
	client := dialText(t, s.Addr())
	echo(t, client, accept(t, second), "hello")
	if err := s.Cutover(2); err != nil {
		t.Error(err)
	}
	if left, err := Settle(t.Context(), []Bound{{Socket: s}}, 1, time.Hour); err != nil || !left[0].Quiet() {
		t.Errorf("Settle: %+v, %v", left, err)
	}
	if c, err := s.Dial(t.Context(), 2); !errors.Is(err, ErrNotSteered) {
		t.Errorf("Dial: %v, %v", c, err)
	}
	if err := s.Leave(1); err != nil {
		t.Error(err)
	}
	if (Unsettled{Young: 1}).Quiet() {
		t.Error("a young connection counts as nothing")
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	echo(t, dialText(t, s.Addr()), accept(t, second), "hello")
	// A generation keeps the socket that the supervisor has closed.
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	echo(t, dialText(t, s.Addr()), accept(t, second), "hello")
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if !refused(t, s.Addr()) {
		t.Error("somebody still has the socket")
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Shared, Steered} {
		testClosed(t, mode)
	}
}

func testClosed(t *testing.T, mode Mode) {
	s := mustOpen(t, "tcp://127.0.0.1:0?mode="+string(mode))
	addr := s.Addr()
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if s.Addr() != addr || s.Mode() != mode {
		t.Error("Addr or Mode has changed")
	}
	for name, call := range map[string]func() error{
		"Join":        func() error { _, err := s.Join(1, 0); return err },
		"Cutover":     func() error { return s.Cutover(1) },
		"Share":       func() error { return s.Share(1, 0.5) },
		"Forward":     func() error { return s.Forward(1) },
		"Seats":       func() error { _, err := s.Seats(); return err },
		"Leave":       func() error { return s.Leave(1) },
		"Stats":       func() error { _, err := s.Stats(); return err },
		"Reconfigure": func() error { return s.Reconfigure(mustParse(t, "tcp://127.0.0.1:0")) },
		"Retire":      func() error { return s.Retire(t.Context()) },
	} {
		if err := call(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %s after Close: %v", mode, name, err)
		}
	}
}

func TestReconfigureBacklog(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"tcp://127.0.0.1:0", "unix:" + abstract(t)} {
		var log logBuffer
		all := mustOpenAll(t, OpenOptions{Log: log.logger()}, "a="+spec+"?backlog=7")
		s := all[0].Socket
		connect(t, s.Addr())
		for _, backlog := range []int{9, 3, 0} {
			next := mustParse(t, "renamed="+spec)
			next.Backlog = backlog
			if err := s.Reconfigure(next); err != nil {
				t.Fatal(err)
			}
			want := backlog
			if want == 0 {
				want = somaxconnNow(t)
			}
			if st := mustStats(t, s); st.Queue != 1 || st.QueueLimit != want {
				t.Errorf("%s: after a change to %d: %+v", spec, backlog, st)
			}
		}
		if log.String() != "" {
			t.Errorf("the log says %q", log.String())
		}
		clamped := mustParse(t, spec)
		clamped.Backlog = somaxconnNow(t) + 1
		for range 2 {
			if err := s.Reconfigure(clamped); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Count(log.String(), "fewer waiting connections"); got != 1 {
			t.Errorf("clamping is reported %d times", got)
		}
	}
}

func TestReconfigureOwnership(t *testing.T) {
	t.Parallel()
	umask, err := currentUmask()
	if err != nil {
		t.Fatal(err)
	}
	path := sockPath(t)
	uid, gid := os.Geteuid(), os.Getegid()
	s := mustOpen(t, "unix://"+path)
	steps := []struct {
		options  string
		mode     uint32
		uid, gid int
	}{
		{"?permissions=0600", 0o600, uid, gid},
		{"?permissions=0666", 0o666, uid, gid},
		{"", 0o777 &^ umask, uid, gid},
	}
	if uid == 0 {
		steps = append(steps, steps[2], steps[2], steps[2])
		steps[3].options, steps[3].uid, steps[3].gid = "?owner=65534&group=65533", 65534, 65533
		steps[4].options, steps[4].gid = "?group=65534", 65534
	}
	for _, step := range steps {
		if err := s.Reconfigure(mustParse(t, "unix://"+path+step.options)); err != nil {
			t.Fatal(err)
		}
		checkFile(t, path, step.mode, step.uid, step.gid)
	}
	if err := s.Reconfigure(mustParse(t, "unix://"+path+"?owner=no-such-user&permissions=0600")); err == nil {
		t.Error("an unknown owner is taken")
	}
	last := steps[len(steps)-1]
	checkFile(t, path, last.mode, last.uid, last.gid)
}

func TestReconfigureNotChangeable(t *testing.T) {
	t.Parallel()
	path := sockPath(t)
	for from, tos := range map[string][]string{
		"unix://" + path: {
			"unixpacket://" + path, "unix://" + path + "x", "unix:" + abstract(t),
			"unix://" + path + "?rcvbuf=1", "unix://" + path + "?sndbuf=1", "unix://" + path + "?nonblocking",
		},
		"tcp://127.0.0.1:0": {
			"udp://127.0.0.1:0", "tcp://127.0.0.2:0", "tcp://127.0.0.1:1", "tcp://[::1]:0", "tcp4://:0",
			"tcp://127.0.0.1:0?freebind", "tcp://127.0.0.1:0?reuseport", "tcp://127.0.0.1:0?transparent",
			"tcp://127.0.0.1:0?mark=1", "tcp://127.0.0.1:0?device=lo", "tcp://127.0.0.1:0?defer-accept=1s",
			"tcp://127.0.0.1:0?fastopen=1",
		},
		"tcp://:0": {"tcp://:0?v6only", "tcp6://:0", "tcp4://:0"},
	} {
		s := mustOpen(t, from)
		before := mustStats(t, s)
		for _, to := range tos {
			// What could change must not, either.
			next := mustParse(t, to)
			if next.listens() {
				next.Backlog = 5
			}
			if next.unixPath() {
				next.Permissions = 0o600
			}
			err := s.Reconfigure(next)
			if !errors.Is(err, ErrNotChangeable) {
				t.Errorf("from %s to %s: %v", from, to, err)
			}
			if st := mustStats(t, s); st != before {
				t.Errorf("from %s to %s: the socket has changed to %+v", from, to, st)
			}
		}
		if mustParse(t, from).unixPath() {
			umask, _ := currentUmask()
			checkFile(t, path, 0o777&^umask, os.Geteuid(), os.Getegid())
		}
	}
	// Another way to say the same is no change.
	s := mustOpen(t, "tcp://:0?v6only")
	for _, same := range []string{"a=tcp6://:0", "tcp6://[::]:0?mode=steered", "tcp://[::]:0?v6only=yes&backlog=9", "tcp6://:0?pass=fd"} {
		if err := s.Reconfigure(mustParse(t, same)); err != nil {
			t.Errorf("%s: %v", same, err)
		}
	}
}

// TestSharedConcurrent calls what may be called at any time while the rest of
// the socket's life goes on.
func TestSharedConcurrent(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, "unix://"+sockPath(t))
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				if s.Addr() == "" || s.Mode() != Shared {
					t.Error("no address or mode")
				}
				if _, err := s.Stats(); errors.Is(err, os.ErrClosed) {
					return
				} else if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for gen := 1; gen < 20; gen++ {
		fd, err := s.Join(gen, 0)
		if err != nil {
			t.Fatal(err)
		}
		fd.Close()
		next := mustParse(t, s.Addr()+fmt.Sprintf("?backlog=%d&permissions=0600", gen))
		if err := errors.Join(s.Cutover(gen), s.Reconfigure(next), s.Leave(gen)); err != nil {
			t.Error(err)
		}
	}
	if err := s.Retire(t.Context()); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

// TestListenIsLeftAlone checks that a generation's socket listens as before
// while the supervisor closes its own descriptor, and has no filter.
func TestListenIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, "tcp://127.0.0.1:0")
	fd := join(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if sockoptInt(t, fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN) != 1 {
		t.Error("Close shuts the socket down")
	}
}
