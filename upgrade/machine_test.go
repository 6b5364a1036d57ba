package upgrade

import (
	"slices"
	"testing"
)

// everyState calls f for every valid state.
func everyState(f func(State)) {
	for p := Phase(0); p < phases; p++ {
		for _, live := range []bool{false, true} {
			for _, again := range []bool{false, true} {
				if s := (State{p, live, again}); s.Valid() {
					f(s)
				}
			}
		}
	}
}

func everyPair(f func(State, Event)) {
	everyState(func(s State) {
		for e := Event(0); e < events; e++ {
			f(s, e)
		}
	})
}

func TestNextStaysInValidStates(t *testing.T) {
	t.Parallel()
	everyPair(func(s State, e Event) {
		to, a := next(s, e)
		if !to.Valid() {
			t.Errorf("%v, %v: leads to %v, which is no valid state", s, e, to)
		}
		if a&Illegal != 0 && (a != Illegal || to != s) {
			t.Errorf("%v, %v: an illegal pair must change nothing, has %v and %v", s, e, to, a)
		}
	})
}

func TestStopWinsInEveryPhase(t *testing.T) {
	t.Parallel()
	everyState(func(s State) {
		if s.Phase >= Stopping {
			return
		}
		if s.Phase == Replacing { // it is for whoever has the service then
			for _, e := range []Event{StopAsked, KillAsked} {
				if to, a := next(s, e); to != s || a != Defer {
					t.Errorf("%v, %v: leads to %v with %v", s, e, to, a)
				}
			}
			return
		}
		if to, a := next(s, StopAsked); to != (State{Phase: Stopping}) || a != Halt {
			t.Errorf("%v: a stop leads to %v with %v", s, to, a)
		}
		if to, a := next(s, KillAsked); to != (State{Phase: Stopping}) || a != Kill {
			t.Errorf("%v: a kill leads to %v with %v", s, to, a)
		}
	})
}

// No request is forgotten: it begins a handoff, joins one that has read nothing yet, is kept, or is refused.
func TestEveryReloadIsAnswered(t *testing.T) {
	t.Parallel()
	everyState(func(s State) {
		to, a := next(s, ReloadAsked)
		if a&(Begin|Refuse|Defer) == 0 && !to.Again {
			t.Errorf("%v: a request would be forgotten: %v with %v", s, to, a)
		}
	})
}

// So is every deploy, and it begins only where it is alone.
func TestEveryDeployIsAnswered(t *testing.T) {
	t.Parallel()
	everyState(func(s State) {
		to, a := next(s, DeployAsked)
		switch {
		case s.Phase == Idle && (a != Begin|Step || to != State{Phase: Holding, Live: s.Live}),
			s.Phase >= Resolving && s.Phase < Sharing && !s.Live && (a != Abort || to != State{Phase: s.Phase, Again: true}),
			s.Phase > Idle && s.Phase < Stopping && (s.Live || s.Phase == Holding || s.Phase >= Sharing) && (a != Decline || to != s),
			s.Phase >= Stopping && (a != Refuse || to != s):
			t.Errorf("%v: leads to %v with %v", s, to, a)
		}
	})
}

// A request that waits is taken up whenever the handoff that it waits for ends, however that ends.
func TestAgainIsTakenUp(t *testing.T) {
	t.Parallel()
	everyPair(func(s State, e Event) {
		to, a := next(s, e)
		if s.Again && !to.Again && a&(Begin|Halt|Kill) == 0 {
			t.Errorf("%v, %v: the waiting request is lost: %v with %v", s, e, to, a)
		}
	})
}

// Whatever happens, a service without a live generation is on its way back: a step runs, or a retry is armed.
func TestNothingLiveIsAlwaysOnItsWayBack(t *testing.T) {
	t.Parallel()
	everyPair(func(s State, e Event) {
		to, a := next(s, e)
		if to.Phase == Idle && !to.Live && s != to && a&(Retry|Resume) == 0 {
			t.Errorf("%v, %v: nothing is live and nothing is armed: %v", s, e, a)
		}
	})
}

// A phase that waits for a step is only entered by an action that runs it.
func TestEnteringAStepRunsIt(t *testing.T) {
	t.Parallel()
	everyPair(func(s State, e Event) {
		to, a := next(s, e)
		entered := to.Phase != s.Phase && to.Phase >= Holding && to.Phase <= Soaking
		if entered != (a&Step != 0) {
			t.Errorf("%v, %v: leads to %v with %v", s, e, to, a)
		}
	})
}

// The live generation is only ever replaced by a completed handoff, and never touched by one that fails.
func TestFailureLeavesTheLiveOneAlone(t *testing.T) {
	t.Parallel()
	everyPair(func(s State, e Event) {
		to, a := next(s, e)
		switch {
		case a&Complete != 0 && !(s.Phase == Soaking && e == StepDone && to.Live):
			t.Errorf("%v, %v: completes", s, e)
		case a&Rollback != 0 && to.Live != s.Live:
			t.Errorf("%v, %v: a rollback changes what is live: %v", s, e, to)
		case s.Live && !to.Live && e != LiveExited && to.Phase != Stopping:
			t.Errorf("%v, %v: the live generation is lost: %v with %v", s, e, to, a)
		}
	})
}

// An abort never takes away the only generation there is, and a promotion never does anything but end a wait.
func TestAbortAndPromote(t *testing.T) {
	t.Parallel()
	everyState(func(s State) {
		to, a := next(s, AbortAsked)
		if running := s.Phase >= Holding && s.Phase <= Soaking; to != s || (a == Abort) != (running && s.Live) || a != Abort && a != Decline {
			t.Errorf("%v: an abort leads to %v with %v", s, to, a)
		}
		to, a = next(s, PromoteAsked)
		if to != s || (a == Hasten) != s.Phase.waits() || a != Hasten && a != Decline {
			t.Errorf("%v: a promotion leads to %v with %v", s, to, a)
		}
	})
}

// steps is n steps that succeed.
func steps(n int) []Event {
	return slices.Repeat([]Event{StepDone}, n)
}

func TestIllegalPairs(t *testing.T) {
	t.Parallel()
	// Counted by hand from the table in the documentation: a pair that becomes legal, or stops being, is seen here.
	var got []string
	everyPair(func(s State, e Event) {
		if _, a := next(s, e); a == Illegal {
			got = append(got, s.String()+", "+e.String())
		}
	})
	const want = 183
	if len(got) != want {
		t.Errorf("%d illegal pairs, want %d:", len(got), want)
		for _, g := range got {
			t.Log(g)
		}
	}
}

// A first start, a handoff, a failed one, a crash: the whole path, step by step.
func TestPaths(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		from   State
		events []Event
		to     State
		last   Action
	}{
		{"first start", State{}, append([]Event{RetryDue}, steps(11)...),
			State{Phase: Idle, Live: true}, Complete},
		{"handoff", State{Live: true}, append([]Event{ReloadAsked}, steps(12)...),
			State{Phase: Idle, Live: true}, Complete},
		{"check fails", State{Live: true}, []Event{ReloadAsked, StepDone, StepDone, StepFailed}, State{Live: true}, Rollback},
		{"new one dies while it warms", State{Phase: Warming, Live: true}, []Event{NewExited}, State{Live: true}, Rollback},
		{"new one dies after the cutover", State{Phase: Settling, Live: true}, []Event{NewExited}, State{Live: true}, Rollback},
		{"old one dies, new one goes on", State{Phase: Warming, Live: true}, append([]Event{LiveExited}, steps(7)...),
			State{Live: true}, Complete},
		{"canary is promoted", State{Phase: Sharing, Live: true}, []Event{PromoteAsked}, State{Phase: Sharing, Live: true}, Hasten},
		{"nothing to go back to, nothing to wait for", State{Phase: Soaking, Live: true}, []Event{LiveExited}, State{Phase: Soaking}, Hasten},
		{"abort while it opens", State{Phase: Opening, Live: true}, []Event{AbortAsked, StepFailed}, State{Live: true}, Rollback},
		{"abort in the soak", State{Phase: Soaking, Live: true}, []Event{AbortAsked, StepFailed}, State{Live: true}, Rollback},
		{"new one dies in the soak", State{Phase: Soaking, Live: true}, []Event{NewExited}, State{Live: true}, Rollback},
		{"both die", State{Phase: Warming, Live: true}, []Event{LiveExited, NewExited}, State{}, Rollback | Retry},
		{"nobody gets to it any more", State{Live: true}, append([]Event{LiveDeaf}, steps(11)...), State{Live: true}, Complete},
		{"nobody gets to either", State{Live: true}, []Event{LiveDeaf, StepFailed}, State{Live: true}, Rollback},
		{"crash", State{Live: true}, []Event{LiveExited}, State{}, Retry},
		{"a reload cuts the back-off short", State{}, []Event{ReloadAsked}, State{Phase: Holding}, Begin | Step},
		{"a thousand requests, one more handoff", State{Phase: Warming, Live: true}, []Event{ReloadAsked, ReloadAsked, ReloadAsked, StepFailed},
			State{Phase: Holding, Live: true}, Rollback | Begin | Step},
		{"deploy", State{Live: true}, append([]Event{DeployAsked}, steps(12)...), State{Live: true}, Complete},
		{"a deploy is alone", State{Phase: Warming, Live: true}, []Event{DeployAsked}, State{Phase: Warming, Live: true}, Decline},
		{"a deploy ends a start that gets nowhere", State{Phase: Warming}, []Event{DeployAsked, StepFailed}, State{Phase: Holding}, Rollback | Begin | Step},
		{"the deploy's new one dies", State{Live: true}, []Event{DeployAsked, StepDone, StepDone, StepDone, StepDone, StepDone, NewExited}, State{Live: true}, Rollback},
		{"replaced", State{Live: true}, []Event{ReplaceAsked, Replaced}, State{Phase: Replacing, Live: true}, Cede},
		{"not replaced", State{Live: true}, []Event{ReplaceAsked, StopAsked, NotReplaced}, State{Live: true}, Resume},
		{"not in a handoff", State{Phase: Warming, Live: true}, []Event{ReplaceAsked}, State{Phase: Warming, Live: true}, Decline},
		{"stop, then all is gone", State{Phase: Warming, Live: true}, []Event{StopAsked, NewExited, LiveExited, StepFailed, AllGone},
			State{Phase: Stopped}, Exit},
	} {
		s, a := tc.from, None
		for _, e := range tc.events {
			s, a = next(s, e)
			if a == Illegal {
				t.Errorf("%s: %v is illegal in %v", tc.name, e, s)
			}
		}
		if s != tc.to || a != tc.last {
			t.Errorf("%s: ends in %v with %v, want %v with %v", tc.name, s, a, tc.to, tc.last)
		}
	}
}
