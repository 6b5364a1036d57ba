package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

func TestHandoff(t *testing.T) {
	t.Parallel()
	s := start(t, "good", nil, nil)
	if n := s.live(); n != 1 {
		t.Fatalf("generation %d is live first", n)
	}
	_, before := s.ask()
	r, err := s.handoff()
	if err != nil {
		t.Fatal(err)
	}
	if r.From != 1 || r.To != 2 || len(r.Steps) != 6 {
		t.Errorf("the record is %+v", r)
	}
	s.live()
	if generation, pid := s.ask(); generation != 2 || pid == before {
		t.Errorf("generation %d answers, pid %d, after %d", generation, pid, before)
	}
	if s.manager.count("RELOADING") != 1 || s.manager.count("READY") != 2 {
		t.Errorf("the manager was told %q", s.manager.told)
	}
}

// Whatever is wrong with the new version: the reason names it, and the old one, the very same process, serves on.
func TestBadVersionChangesNothing(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ mode, step, reason string }{
		{"exit", "ready", "exit status 3"},
		{"missing", "start", "/nonexistent/service"},
		{"mute", "ready", "READY=1"},
		{"flash", "", "exit status 1"},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			t.Parallel()
			s := start(t, "good", nil, func(p *upgrade.Plan) { p.ReadyTimeout = time.Second })
			s.live()
			_, before := s.ask()
			s.become(tc.mode)
			_, err := s.handoff()
			var failed *upgrade.HandoffError
			if tc.mode == "flash" && err == nil {
				// It was live for a moment: then it counts as a crash.
				s.until("a restart", func(st *upgrade.Status) bool { return st.Last.Restart })
				return
			}
			if !errors.As(err, &failed) {
				t.Fatalf("the handoff ended with %v", err)
			}
			if !strings.Contains(failed.Record.Reason, tc.reason) || tc.step != "" && failed.Record.Phase != tc.step {
				t.Errorf("failed at %s: %s", failed.Record.Phase, failed.Record.Reason)
			}
			s.live()
			if generation, pid := s.ask(); generation != 1 || pid != before {
				t.Errorf("generation %d answers, pid %d, before it was %d", generation, pid, before)
			}
			s.become("good")
			if _, err := s.handoff(); err != nil {
				t.Errorf("the next good handoff: %v", err)
			}
		})
	}
}

func TestUnreadableConfigurationChangesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, "good", nil, nil)
	s.live()
	broken := errors.New("app.toml:3: unknown key")
	s.mu.Lock()
	s.load = func() error { return broken }
	s.mu.Unlock()
	_, err := s.handoff()
	var failed *upgrade.HandoffError
	if !errors.As(err, &failed) || failed.Record.Phase != "resolve" || failed.Record.Reason != broken.Error() {
		t.Fatalf("the handoff ended with %v", err)
	}
	if n := s.live(); n != 1 {
		t.Errorf("generation %d is live", n)
	}
}

func TestCheckCommand(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	check := "true"
	s := start(t, "good", nil, func(p *upgrade.Plan) {
		p.CheckTimeout = time.Second
		inner := p.Prepare
		p.Prepare = func(n int) (*upgrade.Prepared, error) {
			prepared, err := inner(n)
			mu.Lock()
			defer mu.Unlock()
			prepared.Check = &child.Command{Path: "/bin/sh", Args: []string{"sh", "-c", check}}
			return prepared, err
		}
	})
	s.live()
	for command, reason := range map[string]string{"exit 4": "exit status 4", "sleep 60": "did not end within 1s"} {
		mu.Lock()
		check = command
		mu.Unlock()
		_, err := s.handoff()
		var failed *upgrade.HandoffError
		if !errors.As(err, &failed) || failed.Record.Phase != "check" || !strings.Contains(failed.Record.Reason, reason) {
			t.Errorf("%s: the handoff ended with %v", command, err)
		}
	}
	if n := s.live(); n != 1 {
		t.Errorf("generation %d is live", n)
	}
}

// Requests that come while a handoff runs are all served by exactly one more.
func TestRequestsCoalesce(t *testing.T) {
	t.Parallel()
	s := start(t, "slow", nil, nil)
	s.live()
	first := make(chan error, 1)
	go func() { _, err := s.handoff(); first <- err }()
	s.until("a handoff that warms", func(st *upgrade.Status) bool { return st.Current != nil && st.Phase == "ready" })
	var all sync.WaitGroup
	numbers := make(chan int, 100)
	for range 100 {
		all.Add(1)
		go func() {
			defer all.Done()
			r, err := s.handoff()
			if err != nil {
				t.Error(err)
				return
			}
			numbers <- r.Handoff
		}()
	}
	all.Wait()
	close(numbers)
	if err := <-first; err != nil {
		t.Error(err)
	}
	for n := range numbers {
		if n != 3 {
			t.Errorf("a request was served by handoff %d, want 3 for all", n)
		}
	}
	if st, _ := s.Status(context.Background()); st.Handoffs != 3 {
		t.Errorf("%d handoffs", st.Handoffs)
	}
}

// A request that a signal made waits for one that belongs to it.
func TestSignalAndRequestAreOneHandoff(t *testing.T) {
	t.Parallel()
	s := start(t, "good", func(o *upgrade.Options) { o.SignalHold = 10 * time.Second }, nil)
	s.live()
	if err := s.Ask(upgrade.Request{By: "SIGHUP", Signal: true}); err != nil {
		t.Fatal(err)
	}
	s.until("a handoff that holds", func(st *upgrade.Status) bool { return st.Phase == "hold" })
	r, err := s.handoff()
	if err != nil {
		t.Fatal(err)
	}
	if r.Handoff != 2 || len(r.By) != 2 {
		t.Errorf("the record is %+v", r)
	}
	if st, _ := s.Status(context.Background()); st.Handoffs != 2 {
		t.Errorf("%d handoffs", st.Handoffs)
	}
}

// A crash of the live generation is repaired at once, on the same socket.
func TestCrashIsRepaired(t *testing.T) {
	t.Parallel()
	s := start(t, "good", nil, nil)
	s.live()
	_, pid := s.ask()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil { // the service has just said that this is its pid
		t.Fatal(err)
	}
	generation, _ := s.ask() // waits in the queue
	if generation != 2 {
		t.Errorf("generation %d answers", generation)
	}
	st := s.until("the restart's record", func(st *upgrade.Status) bool { return st.Last != nil && st.Last.Restart && st.Last.To == 2 })
	if st.Last.Outcome != upgrade.OutcomeDone {
		t.Errorf("the record is %+v", st.Last)
	}
}

// A first start that fails is tried again for ever with the socket open; clients wait.
func TestFirstStartIsTriedAgain(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	mode := "exit"
	s := start(t, "good", nil, func(p *upgrade.Plan) {
		inner := p.Prepare
		p.Prepare = func(n int) (*upgrade.Prepared, error) {
			prepared, err := inner(n)
			mu.Lock()
			defer mu.Unlock()
			prepared.Command.Env[0] = serviceEnv + "=" + mode
			return prepared, err
		}
	})
	st := s.until("three attempts", func(st *upgrade.Status) bool { return st.Handoffs >= 3 && len(st.Sockets) == 1 })
	if s.manager.count("READY") != 0 {
		t.Error("the manager was told READY before anything was")
	}
	address := st.Sockets[0].Address
	mu.Lock()
	mode = "good"
	mu.Unlock()
	if generation, _ := s.ask(); generation < 3 {
		t.Errorf("generation %d answers", generation)
	}
	if now := s.until("the socket", func(st *upgrade.Status) bool { return len(st.Sockets) == 1 }); now.Sockets[0].Address != address {
		t.Errorf("the socket was bound anew: %s, then %s", address, now.Sockets[0].Address)
	}
}

func TestFailFast(t *testing.T) {
	t.Parallel()
	s := start(t, "exit", func(o *upgrade.Options) { o.FailFast = true }, nil)
	err := <-s.ended
	if !errors.Is(err, upgrade.ErrFirstStart) || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Run returned %v", err)
	}
	s.ended <- err
}

// Stop and kill, in every phase that can be held still: nothing hangs, and nobody waits for ever.
func TestStopInEveryPhase(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"hold", "resolve", "check", "ready", "idle"} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s kill=%v", phase, kill), func(t *testing.T) {
				t.Parallel()
				stuck := make(chan struct{})
				var once sync.Once
				release := func() { once.Do(func() { close(stuck) }) }
				defer release()
				s := start(t, "good", func(o *upgrade.Options) { o.SignalHold = time.Minute }, func(p *upgrade.Plan) {
					inner := p.Prepare
					p.Prepare = func(n int) (*upgrade.Prepared, error) {
						if n > 1 && phase == "resolve" {
							<-stuck
						}
						prepared, err := inner(n)
						if n > 1 && phase == "check" {
							prepared.Check = &child.Command{Path: "/bin/sleep", Args: []string{"sleep", "60"}}
						}
						return prepared, err
					}
				})
				s.live()
				answered := make(chan error, 1)
				switch phase {
				case "idle":
					answered <- upgrade.ErrStopping
				case "hold":
					answered <- upgrade.ErrStopping
					s.Ask(upgrade.Request{By: "SIGHUP", Signal: true})
				default:
					s.become("mute")
					go func() { _, err := s.handoff(); answered <- err }()
				}
				s.until("phase "+phase, func(st *upgrade.Status) bool { return st.Phase == phase })
				if kill {
					s.Kill()
				} else {
					s.Stop()
				}
				if err := <-answered; !errors.Is(err, upgrade.ErrStopping) {
					t.Errorf("who waited got %v", err)
				}
				release() // a file system that hangs is not waited for by who asked, but the step has to end
				err := <-s.ended
				if err != nil {
					t.Errorf("Run returned %v", err)
				}
				s.ended <- err
				if _, err := s.handoff(); !errors.Is(err, upgrade.ErrStopping) {
					t.Errorf("a request after the end got %v", err)
				}
			})
		}
	}
}

// More generations than may drain are not kept: the oldest is killed.
func TestDrainingIsLimited(t *testing.T) {
	t.Parallel()
	s := start(t, "stubborn", nil, func(p *upgrade.Plan) { p.DrainGenerations, p.DrainTimeout = 2, time.Hour })
	for range 5 {
		s.until("a live generation", func(st *upgrade.Status) bool { return st.Current == nil })
		if _, err := s.handoff(); err != nil {
			t.Fatal(err)
		}
	}
	st := s.until("two that drain", func(st *upgrade.Status) bool { return len(st.Generations) == 3 })
	if first := st.Generations[0].Number; first != 4 {
		t.Errorf("the oldest that drains is %d, want 4 of 6", first)
	}
}

func TestDrainLimitKills(t *testing.T) {
	t.Parallel()
	s := start(t, "stubborn", nil, func(p *upgrade.Plan) { p.DrainTimeout = 100 * time.Millisecond })
	s.until("a live generation", func(st *upgrade.Status) bool { return st.Current == nil && len(st.Generations) == 1 })
	if _, err := s.handoff(); err != nil {
		t.Fatal(err)
	}
	if n := s.live(); n != 2 {
		t.Errorf("generation %d is left", n)
	}
}

// A request that is older than what a handoff has read is answered by that one, while it runs and after it; one that is
// not begins another.
func TestOldRequestJoins(t *testing.T) {
	t.Parallel()
	s := start(t, "good", nil, nil)
	s.live()
	ctx := context.Background()
	if _, err := s.Reload(ctx, upgrade.Request{By: "first"}, nil); err != nil {
		t.Fatal(err)
	}
	for i, tc := range []struct {
		since uint64
		want  int // handoff
	}{{1, 2}, {1, 2}, {0, 3}, {1 << 62, 4}} {
		r, err := s.Reload(ctx, upgrade.Request{By: "later", Since: tc.since}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Handoff != tc.want {
			t.Errorf("request %d was answered by handoff %d, want %d", i, r.Handoff, tc.want)
		}
	}
}
