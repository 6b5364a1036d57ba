package upgrade

import "fmt"

// Phase says what the supervisor is doing. Draining goes on behind it and is not a phase: it belongs to each
// generation (see Role).
type Phase uint8

// The phases, in the order in which a handoff passes through them.
const (
	Idle      Phase = iota // nothing is under way; a generation is live, or a back-off runs out
	Holding                // a handoff is agreed, and has not read anything yet: requests still join it
	Resolving              // reading the configuration, resolving command, directory, environment and user
	Checking               // running the check command
	Opening                // binding sockets that are new in the configuration
	Starting               // executing the service
	Warming                // waiting for the ready signal
	Probing                // asking the new generation as a client would
	Approving              // running the command that has the last word before clients get to it
	Sharing                // letting it have a part of new connections: the canary
	Cutting                // moving new connections to the new generation
	Settling               // waiting until the kernel shows the old generation quiet
	Soaking                // keeping the old generation in reach
	Replacing              // leaving the service to another supervisor
	Stopping               // every generation is being ended
	Stopped                // no generation is left
	phases                 // how many there are
)

var phaseNames = [phases]string{
	"idle", "hold", "resolve", "check", "open", "start", "ready", "probe", "before-cutover", "canary", "cutover", "settle",
	"soak", "replace", "stop", "stopped",
}

// String returns the phase's name as it stands in output and documentation.
func (p Phase) String() string {
	if p < phases {
		return phaseNames[p]
	}
	return fmt.Sprintf("phase %d", uint8(p))
}

// Event is something that happened.
type Event uint8

// The events.
const (
	ReloadAsked  Event = iota // somebody asked for a handoff
	StopAsked                 // somebody asked for an orderly end
	KillAsked                 // somebody asked for an end at once
	PromoteAsked              // somebody asked not to wait any longer for the canary or the soak
	AbortAsked                // somebody asked to give the handoff up
	StepDone                  // the step that the phase is named after has succeeded
	StepFailed                // it has failed
	NewExited                 // the main process of the generation that is being started has ended
	LiveExited                // the main process of the live generation has ended by itself
	LiveDeaf                  // nobody gets to the live generation any more, by its own doing
	RetryDue                  // the back-off has run out
	AllGone                   // no generation is left and no step runs
	ReplaceAsked              // another supervisor is there, which is to take the service over
	Replaced                  // it has
	NotReplaced               // it could not, and is gone
	DeployAsked               // somebody asked for a handoff to a release, which has to be alone
	events                    // how many there are
)

var eventNames = [events]string{
	"reload asked", "stop asked", "kill asked", "promote asked", "abort asked", "step done", "step failed", "new exited", "live exited",
	"live deaf", "retry due", "all gone", "replace asked", "replaced", "not replaced", "deploy asked",
}

// String returns the event's name.
func (e Event) String() string {
	if e < events {
		return eventNames[e]
	}
	return fmt.Sprintf("event %d", uint8(e))
}

// Action is a set of things to do. The owner performs the members in the order in which they are declared here.
type Action uint32

// The actions.
const (
	Refuse   Action = 1 << iota // answer the request: the supervisor is stopping
	Decline                     // answer the request: there is nothing that it could be about
	Hasten                      // the canary or the soak is over: its step ends well
	Abort                       // cancel the step that runs, so that it ends, and fails
	Rollback                    // end the new generation, close sockets that only it had, answer who waits with the reason
	Complete                    // the new generation is the live one: answer who waits, drain the old one
	Halt                        // cancel the step that runs, end every generation in order, answer who waits
	Kill                        // cancel the step that runs, kill every generation
	Retry                       // arm the back-off after which the service is started again
	Begin                       // take the requests that wait and begin a handoff for them
	Restart                     // begin to start the service as it was, again or in the stead of the live generation
	Step                        // run the step that the new phase is named after
	Exit                        // end the supervisor
	Part                        // let go of everything, and leave it to the other supervisor
	Defer                       // keep the event until the other supervisor has taken over, or has failed
	Resume                      // take everything over again, and then the events that were kept
	Cede                        // end, and leave everything as it is
	Illegal                     // this event cannot happen in this state: say so loudly and change nothing
	None     Action = 0
)

var actionNames = [...]string{
	"refuse", "decline", "hasten", "abort", "rollback", "complete", "halt", "kill", "retry", "begin", "restart", "step", "exit",
	"part", "defer", "resume", "cede", "illegal",
}

// String returns the names of the set's members, joined by "+".
func (a Action) String() string {
	s := ""
	for i, name := range actionNames {
		if a&(1<<i) == 0 {
			continue
		}
		if s != "" {
			s += "+"
		}
		s += name
	}
	if s == "" {
		return "none"
	}
	return s
}

// State is everything that decides what an event means.
type State struct {
	Phase Phase
	Live  bool // a generation is live: it serves, and was not told to stop
	Again bool // a request came too late for the handoff that runs: exactly one more follows
}

// String returns the state as one word or a few, such as "ready live again".
func (s State) String() string {
	text := s.Phase.String()
	if s.Live {
		text += " live"
	}
	if s.Again {
		text += " again"
	}
	return text
}

// Valid reports whether the machine can be in this state: a request is only kept waiting by a handoff that runs and
// has begun to read, and nothing is live any more once the supervisor stops.
func (s State) Valid() bool {
	switch {
	case s.Phase >= phases:
		return false
	case s.Again:
		return s.Phase >= Resolving && s.Phase <= Soaking
	case s.Live:
		return s.Phase < Stopping
	}
	return true
}

// next is the whole of a handoff: what to do, and where that leads, for every event in every state. It is pure, total
// over the valid states, and has no defaults: pairs that cannot happen are written down as Illegal.
func next(s State, e Event) (State, Action) {
	switch s.Phase {
	case Stopped:
		return nextStopped(s, e)
	case Stopping:
		return nextStopping(s, e)
	case Replacing:
		return nextReplacing(s, e)
	}
	// A stop wins over everything, in every phase in which there is something to stop.
	switch e {
	case StopAsked:
		return State{Phase: Stopping}, Halt
	case KillAsked:
		return State{Phase: Stopping}, Kill
	}
	switch s.Phase {
	case Idle:
		return nextIdle(s, e)
	case Holding:
		return nextHolding(s, e)
	default:
		return nextStep(s, e)
	}
}

func nextIdle(s State, e Event) (State, Action) {
	switch e {
	case ReloadAsked, DeployAsked:
		return State{Phase: Holding, Live: s.Live}, Begin | Step
	case LiveExited:
		if !s.Live {
			return s, Illegal
		}
		return State{Phase: Idle}, Retry
	case RetryDue:
		if s.Live { // it ran out while a handoff was already under way that has succeeded since
			return s, None
		}
		return State{Phase: Resolving}, Restart | Step
	case LiveDeaf:
		if !s.Live {
			return s, Illegal
		}
		return State{Phase: Resolving, Live: true}, Restart | Step
	case PromoteAsked, AbortAsked:
		return s, Decline
	case ReplaceAsked:
		return State{Phase: Replacing, Live: s.Live}, Part
	case AllGone:
		return s, None
	}
	return s, Illegal // StepDone, StepFailed, NewExited: no step runs and nothing is being started
}

// nextReplacing answers while another supervisor takes the service over. What is wanted meanwhile is for the one of the two
// that has it then.
func nextReplacing(s State, e Event) (State, Action) {
	switch e {
	case ReloadAsked, StopAsked, KillAsked:
		return s, Defer
	case PromoteAsked, AbortAsked, ReplaceAsked, DeployAsked:
		return s, Decline
	case LiveExited, LiveDeaf, RetryDue, AllGone: // whoever has it then sees for itself
		return s, None
	case Replaced:
		return s, Cede
	case NotReplaced:
		return State{Phase: Idle, Live: s.Live}, Resume
	}
	return s, Illegal // StepDone, StepFailed, NewExited: no step runs and nothing is being started
}

func nextHolding(s State, e Event) (State, Action) {
	switch e {
	case ReloadAsked: // joins this handoff: nothing has been read yet
		return s, Begin
	case AbortAsked:
		return nextAbort(s)
	case PromoteAsked, ReplaceAsked, DeployAsked:
		return s, Decline
	case StepDone:
		return State{Phase: Resolving, Live: s.Live}, Step
	case StepFailed: // it was aborted
		return failed(s)
	case LiveExited:
		if !s.Live {
			return s, Illegal
		}
		return State{Phase: Holding}, None
	case LiveDeaf:
		return nextDeaf(s)
	case RetryDue, AllGone:
		return s, None
	}
	return s, Illegal // NewExited: nothing is being started
}

// nextAbort gives a handoff up, if there is a generation to go back to.
func nextAbort(s State) (State, Action) {
	if !s.Live {
		return s, Decline
	}
	return s, Abort
}

// waits reports whether the phase only lets time pass while the new generation already gets connections.
func (p Phase) waits() bool { return p == Sharing || p == Soaking }

// nextStep answers for the phases from Resolving to Soaking.
func nextStep(s State, e Event) (State, Action) {
	started := s.Phase >= Warming
	switch e {
	case ReloadAsked:
		return State{Phase: s.Phase, Live: s.Live, Again: true}, None
	case AbortAsked:
		return nextAbort(s)
	case DeployAsked:
		if !s.Live && s.Phase < Sharing {
			// The service is down, and this start may never come to anything.
			return State{Phase: s.Phase, Again: true}, Abort
		}
		return s, Decline // what current points to is this handoff's business
	case ReplaceAsked:
		return s, Decline
	case PromoteAsked:
		if !s.Phase.waits() {
			return s, Decline
		}
		return s, Hasten
	case StepDone:
		if s.Phase == Soaking {
			return after(State{Live: true, Again: s.Again}, Complete)
		}
		return State{Phase: s.Phase + 1, Live: s.Live, Again: s.Again}, Step
	case StepFailed:
		return failed(s)
	case NewExited:
		if !started {
			return s, Illegal
		}
		// Up to the end: the old generation was not told to stop yet, so there is a way back.
		return failed(s)
	case LiveExited:
		if !s.Live {
			return s, Illegal
		}
		// Its replacement is already being started. Once there is nothing to go back to, there is nothing to wait for.
		if s.Phase.waits() {
			return State{Phase: s.Phase, Again: s.Again}, Hasten
		}
		return State{Phase: s.Phase, Again: s.Again}, None
	case LiveDeaf:
		return nextDeaf(s)
	case RetryDue, AllGone:
		return s, None
	}
	return s, Illegal
}

// nextDeaf goes on: the live generation's replacement is on its way already.
func nextDeaf(s State) (State, Action) {
	if !s.Live {
		return s, Illegal
	}
	return s, None
}

// failed rolls back, and goes on with what is owed: the handoff that waits, or a restart where nothing is live.
func failed(s State) (State, Action) {
	if !s.Live && !s.Again {
		return State{Phase: Idle}, Rollback | Retry
	}
	return after(s, Rollback)
}

// after ends a handoff with a, and begins the next one where a request waits for it.
func after(s State, a Action) (State, Action) {
	if s.Again {
		return State{Phase: Holding, Live: s.Live}, a | Begin | Step
	}
	return State{Phase: Idle, Live: s.Live}, a
}

func nextStopping(s State, e Event) (State, Action) {
	switch e {
	case ReloadAsked, DeployAsked:
		return s, Refuse
	case PromoteAsked, AbortAsked, ReplaceAsked:
		return s, Decline
	case KillAsked:
		return s, Kill
	case StepDone, StepFailed: // a step that was cancelled may still have started a process: end that one too
		return s, Halt
	case AllGone:
		return State{Phase: Stopped}, Exit
	case StopAsked, NewExited, LiveExited, LiveDeaf, RetryDue:
		return s, None
	}
	return s, Illegal
}

func nextStopped(s State, e Event) (State, Action) {
	switch e {
	case ReloadAsked, DeployAsked:
		return s, Refuse
	case PromoteAsked, AbortAsked, ReplaceAsked:
		return s, Decline
	case StopAsked, KillAsked, RetryDue, AllGone:
		return s, None
	}
	return s, Illegal // no step runs and no generation is left
}
