package main

import (
	"slices"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A hook has the service's environment, and what it is about: also what is not there, so that nothing of the supervisor's own
// surroundings can be taken for it.
func TestHookEnvironment(t *testing.T) {
	t.Parallel()
	p := planner{environ: []string{"PATH=/bin", "ZDD_PREVIOUS_RELEASE=stray"}}
	cfg := &config.Config{Name: "app", Environment: map[string]string{"A": "{generation}"}, Directory: "/"}
	if p.hook(cfg, nil) != nil {
		t.Error("there is a hook where none is configured")
	}
	hook := p.hook(cfg, []string{"/bin/tell", "{generation}"})
	for _, about := range []upgrade.HookFacts{
		{Handoff: 3, Generation: 7, Release: "v2", PreviousGeneration: 6, PreviousRelease: "v1"},
		{Generation: 7},
	} {
		c, err := hook(about)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"ZDD_NAME=app", "ZDD_HANDOFF=3", "ZDD_GENERATION=7", "ZDD_RELEASE=v2", "ZDD_PREVIOUS_GENERATION=6", "ZDD_PREVIOUS_RELEASE=v1"}
		if about.Handoff == 0 {
			want = []string{"ZDD_NAME=app", "ZDD_HANDOFF=", "ZDD_GENERATION=7", "ZDD_RELEASE=", "ZDD_PREVIOUS_GENERATION=", "ZDD_PREVIOUS_RELEASE="}
		}
		if n := len(c.Env) - len(want); n < 0 || !slices.Equal(c.Env[n:], want) || !slices.Contains(c.Env, "A=7") || slices.Contains(c.Env, "ZDD_PREVIOUS_RELEASE=stray") {
			t.Errorf("the environment is %q", c.Env)
		}
		if !slices.Equal(c.Args, []string{"/bin/tell", "7"}) {
			t.Errorf("the arguments are %q", c.Args)
		}
	}
}

// The unit's limits have room for the hooks that hold up whoever waits.
func TestHooking(t *testing.T) {
	t.Parallel()
	one := []string{"x"}
	for want, h := range map[time.Duration]config.Hooks{
		0: {AfterGone: one}, 1: {AfterLive: one}, 2: {BeforeCutover: one, AfterLive: one, AfterGone: one},
	} {
		h.Timeout = time.Second
		if got := hooking(h); got != want*time.Second {
			t.Errorf("%+v: %s", h, got)
		}
	}
}
