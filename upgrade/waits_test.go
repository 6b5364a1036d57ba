package upgrade_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// follow hands off and returns what was told meanwhile, each step with "begun" or "ended".
func follow(s *supervisor) (told []string, waits map[string]string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	waits = make(map[string]string)
	_, err = s.Reload(ctx, upgrade.Request{By: "test"}, func(p upgrade.Progress) {
		if p.Ended() {
			told = append(told, p.Step+" ended")
			return
		}
		if line := p.Step + " begun"; !slices.Contains(told, line) {
			told = append(told, line)
		}
		waits[p.Step] = p.Waits
	})
	return told, waits, err
}

// Who waits for a handoff is told of each step when it begins, with what it waits for, and when it has ended.
func TestStepsAreTold(t *testing.T) {
	t.Parallel()
	s := start(t, "good", nil, nil)
	s.live()
	told, waits, err := follow(s)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, step := range []string{"resolve", "open", "start", "ready", "cutover", "settle"} {
		want = append(want, step+" begun", step+" ended")
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	for step, text := range map[string]string{
		"ready": "generation 2 to be ready (READY=1), at most 10s", "settle": "generation 1 to be quiet, at most 1s",
	} {
		if !strings.HasPrefix(waits[step], text) {
			t.Errorf("at %s it waits for %q, want %q", step, waits[step], text)
		}
	}
}

// Who asks while a handoff runs is told which one it waits for, and the status tells what the step waits for.
func TestWhoWaitsForTheNext(t *testing.T) {
	t.Parallel()
	s := start(t, "good", nil, nil)
	s.live()
	s.become("mute")
	first := make(chan error, 1)
	go func() { _, err := s.handoff(); first <- err }()
	st := s.until("a handoff that warms", func(st *upgrade.Status) bool { return st.Phase == "ready" && st.Step != nil })
	if !strings.Contains(st.Step.Waits, "READY=1") || st.Step.Began.IsZero() {
		t.Errorf("the step is %+v", st.Step)
	}
	ahead := make(chan upgrade.Progress, progressMost)
	go s.Reload(context.Background(), upgrade.Request{By: "another"}, func(p upgrade.Progress) { ahead <- p })
	p := <-ahead
	if p.Handoff != 3 || !strings.Contains(p.Waits, "handoff 2 to end, which is at step ready") {
		t.Errorf("told %+v", p)
	}
	s.become("good")
	if _, err := s.Abort(context.Background(), "test"); err != nil {
		t.Fatal(err)
	}
	<-first
	if p = <-ahead; p.Step != "resolve" || p.Handoff != 3 || p.Waits == "" {
		t.Errorf("then told %+v", p)
	}
}

// progressMost is more than the events of a handoff.
const progressMost = 100

// The status of a service that is down says why, and when it is started again; one that drains says until when it may.
func TestDownAndDraining(t *testing.T) {
	t.Parallel()
	s := start(t, "stubborn", nil, func(p *upgrade.Plan) { p.DrainTimeout = time.Hour })
	s.until("a live generation", func(st *upgrade.Status) bool { return st.Last != nil && st.Current == nil })
	if _, err := s.handoff(); err != nil {
		t.Fatal(err)
	}
	st := s.until("one that was told to stop", func(st *upgrade.Status) bool { return st.Generations[0].Ending != nil && st.Generations[0].Ending.Told })
	if left := time.Until(st.Generations[0].Ending.Limit); left < 55*time.Minute || left > time.Hour {
		t.Errorf("%s are left of an hour", left)
	}
	if g := st.Generations[1]; g.Live == nil || g.Ending != nil || st.Down != "" || st.Retry != nil {
		t.Errorf("live: %+v, down %q", g, st.Down)
	}

	down := start(t, "exit", nil, nil)
	st = down.until("a pause", func(st *upgrade.Status) bool { return st.Retry != nil && time.Until(*st.Retry) > 50*time.Millisecond })
	if !strings.Contains(st.Down, "start failed at step ready: generation") || !strings.Contains(st.Down, "exit status 3") {
		t.Errorf("it is down because of %q", st.Down)
	}
	for _, seat := range st.Sockets[0].Seats {
		if seat.Generation != 0 && !slices.ContainsFunc(st.Generations, func(g upgrade.GenerationStatus) bool { return g.Number == seat.Generation }) {
			t.Errorf("the seat is that of generation %d, which is gone: %s", seat.Generation, fmt.Sprint(st.Generations))
		}
	}
}
