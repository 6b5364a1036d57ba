package upgrade

import "time"

// An Observer is told what has happened, in the order in which it has. Its methods are called by the goroutine that owns the
// state, and so must not block.
type Observer interface {
	// HandoffEnded is called once for each handoff, after every outcome, before whoever has asked for it gets the answer.
	HandoffEnded(Record)
	// GenerationGone is called once for each generation of which no process is left.
	GenerationGone(Ending)
}

// An Ending tells how a generation has ended.
type Ending struct {
	Generation int           `json:"generation"`
	Release    string        `json:"release,omitempty"`
	Role       Role          `json:"role"`              // that it ended with
	Because    string        `json:"because"`           // why it was ended, as a clause
	Exit       string        `json:"exit"`              // how its main process has ended, in words
	Handoff    int           `json:"handoff,omitempty"` // that made the next one live; 0 if none has
	Began      time.Time     `json:"began"`             // to be ended
	Took       time.Duration `json:"took_ns"`
	Killed     int           `json:"killed,omitempty"` // processes that did not end by themselves within the limit
	// Probation says that it has ended by itself, within its probation, see Plan.Probation.
	Probation bool `json:"probation,omitempty"`
}

// A HookResult tells of a command that was run behind a handoff.
type HookResult struct {
	Hook       string        `json:"hook"` // its key, without "hooks."
	Handoff    int           `json:"handoff,omitempty"`
	Generation int           `json:"generation"`
	Release    string        `json:"release,omitempty"`
	Began      time.Time     `json:"began"`
	Took       time.Duration `json:"took_ns"`
	Error      string        `json:"error,omitempty"` // "" if it has succeeded
}

// A HookObserver is an Observer that is told of hooks too.
type HookObserver interface {
	// HookEnded is called once for each command that was run behind a handoff.
	HookEnded(HookResult)
}

// observe tells every observer the same.
func (s *Supervisor) observe(tell func(Observer)) {
	for _, o := range s.opts.Observers {
		tell(o)
	}
}
