package fdpass

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// again restores a socket from its snapshot and the descriptors that it has, as another process would, and closes the
// first one.
func again(t *testing.T, s Socket) Socket {
	t.Helper()
	snapshot, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	kept := make(map[string]*FD)
	if err := s.EachPart(func(id string, fd *FD) (err error) {
		kept[id], err = fd.Dup()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(); err != nil {
		t.Fatal(err)
	}
	var read Snapshot
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(read, func(p Part) *FD { return kept[p.ID] }, nil)
	for _, fd := range kept {
		fd.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restored.Close() })
	return restored
}

func TestRestoreSteered(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"tcp://127.0.0.1:0", "tcp6://[::1]:0", "tcp://:0?backlog=9"} {
		s := mustOpen(t, spec)
		first, err := s.Join(1, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		second, err := s.Join(2, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		addr := s.Addr()
		// In the middle of a canary: what was given away comes back.
		if err := s.Share(2, 1); err != nil {
			t.Fatal(err)
		}
		s = again(t, s)
		if s.Addr() != addr || s.Mode() != Steered {
			t.Fatalf("%s: restored as %s in mode %s", spec, s.Addr(), s.Mode())
		}
		client := dialText(t, s.Addr())
		echo(t, client, accept(t, first), "hello")
		if err := s.Cutover(2); err != nil {
			t.Fatal(err)
		}
		s = again(t, s)
		echo(t, dialText(t, s.Addr()), accept(t, second), "hello")
		if err := s.Leave(1); err != nil {
			t.Fatal(err)
		}
		third, err := s.Join(3, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer third.Close()
		echo(t, dialText(t, s.Addr()), accept(t, second), "hello")
		if err := s.Cutover(3); err != nil {
			t.Fatal(err)
		}
		echo(t, dialText(t, s.Addr()), accept(t, third), "hello")
		if open, err := Settle(t.Context(), []Bound{{Socket: s}}, 2, time.Second); err != nil || !open[0].Quiet() {
			t.Errorf("%s: Settle: %+v, %v", spec, open, err)
		}
	}
}

// A snapshot that is older than the kernel's program is what holds.
func TestRestoreOlder(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, "tcp://127.0.0.1:0")
	first, err := s.Join(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := s.Join(2, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	snapshot, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Cutover(2); err != nil {
		t.Fatal(err)
	}
	restored, err := Restore(snapshot, func(p Part) *FD {
		if p.Generation == 1 {
			return first
		}
		return second
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer restored.Close()
	echo(t, dialText(t, s.Addr()), accept(t, first), "hello")
}

func TestRestoreUnix(t *testing.T) {
	t.Parallel()
	path := sockPath(t)
	s := mustOpen(t, "unix://"+path)
	service := join(t, s)
	s = again(t, s)
	if s.Mode() != Shared || s.Addr() != "unix://"+path {
		t.Fatalf("restored as %s in mode %s", s.Addr(), s.Mode())
	}
	echo(t, dialText(t, s.Addr()), accept(t, service), "hello")
	// The file is still its own.
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

func TestRestoreLost(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, "tcp://127.0.0.1:0")
	other := mustOpen(t, "tcp://127.0.0.1:0")
	snapshot, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for what, find := range map[string]func(Part) *FD{
		"nobody has it":        func(Part) *FD { return nil },
		"it is another socket": func(Part) *FD { return ownFD(other) },
	} {
		if restored, err := Restore(snapshot, find, nil); !errors.Is(err, ErrLost) || restored != nil {
			t.Errorf("%s: %v, %v", what, restored, err)
		}
	}
	// One that a process has shut down is as good as lost.
	fd, err := ownFD(s).Dup()
	if err != nil {
		t.Fatal(err)
	}
	again, err := fd.Dup()
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := Discard(fd); err != nil {
		t.Error(err)
	}
	if restored, err := Restore(snapshot, func(Part) *FD { return again }, nil); !errors.Is(err, ErrLost) || restored != nil {
		t.Errorf("shut down: %v, %v", restored, err)
	}
}

// That the socket of a generation which was told to stop has gone with the supervisor is as it should be; that of the one which
// connections go to is not.
func TestRestoreWithout(t *testing.T) {
	t.Parallel()
	for lost, want := range map[int]string{1: "level=INFO", 2: "level=WARN"} {
		s := mustOpen(t, "tcp://127.0.0.1:0")
		var children []*FD
		for generation := 1; generation <= 2; generation++ {
			child, err := s.Join(generation, 0)
			must(t, err)
			defer child.Close()
			children = append(children, child)
		}
		must(t, s.Cutover(2))
		snapshot, err := s.Snapshot()
		must(t, err)
		var log logBuffer
		restored, err := Restore(snapshot, func(p Part) *FD {
			if p.Generation == lost {
				return nil
			}
			return children[p.Generation-1]
		}, log.logger())
		must(t, err)
		defer restored.Close()
		if !strings.Contains(log.String(), want) || strings.Count(log.String(), "level=") != 1 {
			t.Errorf("without that of generation %d: %s", lost, log.String())
		}
	}
}
