package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// Hooks are commands that are run at certain points of a handoff; nil for none.
type Hooks struct {
	BeforeCutover HookFunc // before clients get to the new generation; if it fails, the handoff does
	AfterLive     HookFunc // when it is live, before whoever waits gets the answer
	AfterGone     HookFunc // when no process of a generation is left

	Timeout time.Duration // that each may take
}

// A HookFunc makes the command of a hook. It may block on the file system.
type HookFunc func(about HookFacts) (*child.Command, error)

// HookFacts are what a hook is told.
type HookFacts struct {
	Handoff            int // 0 for a generation that no other has replaced
	Generation         int
	Release            string
	PreviousGeneration int // the one that serves, or served until then; 0 for none, and always in AfterGone
	PreviousRelease    string
	Ports              map[string]int // the private ports of Generation, by the names of their sockets; nil in AfterGone
}

// facts are those of a handoff.
func (h *handoff) facts() HookFacts {
	r := h.record
	return HookFacts{Handoff: r.Handoff, Generation: r.To, Release: r.ToRelease, PreviousGeneration: r.From, PreviousRelease: r.FromRelease, Ports: portsOf(h.bound, r.To)}
}

// Names of hooks, as in the configuration.
const (
	hookAfterLive = "after-live"
	hookAfterGone = "after-gone"
)

// beforeCutover has the last word on a new generation before clients get to it.
func (s *Supervisor) beforeCutover(ctx context.Context, h *handoff) work {
	hooks, about := h.plan.Hooks, h.facts()
	if hooks.BeforeCutover == nil {
		return nil
	}
	return func() (func(), error) {
		return nil, s.runHook(ctx, Approving.String(), hooks.BeforeCutover, about, hooks.Timeout)
	}
}

// runHook runs a hook, and blocks until it has ended. The error says in a sentence how it has failed.
func (s *Supervisor) runHook(parent context.Context, name string, of HookFunc, about HookFacts, limit time.Duration) error {
	c, err := of(about)
	if err != nil {
		return fmt.Errorf("the command of hooks.%s: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	exit, err := s.opts.Reaper.Run(ctx, *c)
	switch {
	case parent.Err() != nil:
		return fmt.Errorf("the command %s of hooks.%s was ended before it was done", c.Path, name)
	case ctx.Err() != nil:
		return fmt.Errorf("the command %s of hooks.%s did not end within %s (hooks.timeout)", c.Path, name, limit)
	case err != nil:
		return fmt.Errorf("the command of hooks.%s: %w", name, err)
	case !exit.Success():
		return fmt.Errorf("the command %s of hooks.%s ended (%s); its output, in the supervisor's log, says why", c.Path, name, exit)
	}
	return nil
}

// behind runs a hook in a goroutine of its own, after those that were to be run before it, and then calls then on the owner's.
// When the supervisor stops, what runs is ended, and what waits is not begun.
func (s *Supervisor) behind(name string, hooks Hooks, of HookFunc, about HookFacts, then func(HookResult)) {
	before, done := s.lastHook, make(chan struct{})
	s.lastHook = done
	s.hooksLeft++
	s.spawn(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		result := HookResult{Hook: name, Handoff: about.Handoff, Generation: about.Generation, Release: about.Release, Began: time.Now()}
		err := s.hooking.Err()
		if err == nil {
			err = s.runHook(s.hooking, name, of, about, hooks.Timeout)
		} else {
			err = errors.New("the supervisor was stopped before the command of hooks." + name + " was run")
		}
		result.Took = time.Since(result.Began)
		if err != nil {
			result.Error = err.Error()
		}
		s.post(func() {
			s.hooksLeft--
			if err != nil {
				s.log.Error("a hook has failed", "hook", name, "generation", about.Generation, "cause", err)
			} else {
				s.log.Info("a hook has run", "hook", name, "generation", about.Generation, "took", result.Took.Round(time.Millisecond).String())
			}
			s.observe(func(o Observer) {
				if o, ok := o.(HookObserver); ok {
					o.HookEnded(result)
				}
			})
			then(result)
		})
	})
}

// answer answers everybody who waits for a handoff, after the hook that is for when it is live.
func (s *Supervisor) answer(h *handoff, r *Record) {
	tickets := h.tickets
	answer := func(r *Record) {
		for _, t := range tickets {
			t.answer(r, nil)
		}
	}
	if r.Outcome != OutcomeDone || h.plan.Hooks.AfterLive == nil {
		answer(r)
		return
	}
	s.behind(hookAfterLive, h.plan.Hooks, h.plan.Hooks.AfterLive, h.facts(), func(result HookResult) {
		for _, t := range tickets {
			t.tell(Progress{Handoff: r.Handoff, Step: result.Hook, Generation: r.To, Took: result.Took, Error: result.Error})
		}
		answer(s.amend(r, result))
	})
}

// amend adds a hook to a record that others may be reading.
func (s *Supervisor) amend(r *Record, result HookResult) *Record {
	amended := *r
	amended.Hooks = append(amended.Hooks[:len(amended.Hooks):len(amended.Hooks)], result)
	if s.last == r {
		s.last = &amended
	}
	if s.lastAsked == r {
		s.lastAsked = &amended
	}
	return &amended
}

// afterGone runs the hook for a generation of which no process is left.
func (s *Supervisor) afterGone(g *generation) {
	hooks := g.plan.Hooks
	if hooks.AfterGone == nil || s.state.Phase >= Replacing {
		return
	}
	about := HookFacts{Handoff: g.replacedBy, Generation: g.number, Release: g.release}
	s.behind(hookAfterGone, hooks, hooks.AfterGone, about, func(HookResult) {})
}
