package upgrade

import (
	"context"
	"encoding/json"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// Plan is what a configuration asks for. It is read anew for each handoff, and kept for restarts after a crash: an
// edited file comes into force when somebody asks for it, not when the service happens to crash.
type Plan struct {
	Source json.RawMessage // what Options.Restore makes the same plan of

	Sockets []fdpass.Spec // in the order in which the service gets them
	Places  []string      // where each of them was asked for, for messages; may be nil

	// Prepare resolves everything that a generation is started with: the command's path, its working directory,
	// environment files, user and release. It is called for each generation, after a crash too, and so never sees
	// what an earlier one was resolved to. It may block on the file system.
	Prepare func(generation int) (*Prepared, error)

	Releases Releases // where the service's releases lie; nil where they are not managed

	ReadyTimeout time.Duration // how long the ready signal may take
	CheckTimeout time.Duration // how long the check command may take
	SettleMax    time.Duration // how long settling may take
	Soak         time.Duration // how long the old generation stays in reach after that; 0 means not at all
	Linger       time.Duration // how long the connections of an old generation may end by themselves, before it is told to stop
	Carry        *Carry        // how kept-alive connections are carried over from an old generation; nil for not at all
	Watchdog     time.Duration // a live generation must say WATCHDOG=1 this often; 0 means that it need not

	Probation    time.Duration // a generation that ends by itself this soon after it became live speaks against its release
	AutoRollback bool          // after a deploy, the release before is started in its place then

	Hooks Hooks // commands that are run at certain points

	Probe  *Probe       // asks the new generation before clients do, and while they do; nil for none
	Canary []CanaryStep // what part of new connections it gets before it gets all; none for all at once

	DrainSignal      unix.Signal   // asks a generation's main process to finish and exit
	DrainTimeout     time.Duration // after which its whole tree is killed
	DrainGenerations int           // how many may drain at once; past that the oldest is killed
}

// A Probe is a question that a good generation answers.
type Probe struct {
	// Ask asks once, and blocks until it has the answer or ctx ends. The error says what was wrong with it.
	Ask func(ctx context.Context, t *Target) error

	Count    int           // how many answers in a row it takes before clients get there
	Timeout  time.Duration // how long each may take
	Interval time.Duration // how often it is asked while the canary or the soak lasts
}

// Carry says how the kept-alive connections to those sockets whose protocol is HTTP/1 are carried over to the next generation.
type Carry struct {
	Wait   time.Duration // how long an ordinary request takes at most; what takes longer is left to the old generation
	Idle   time.Duration // how long one is held whose client sends nothing
	Relays int           // how many requests are passed on at once
}

// A CanaryStep is a time in which the new generation gets a part of new connections.
type CanaryStep struct {
	Share float64 // of 1
	Time  time.Duration
}

// Prepared is a generation as it is about to be started.
type Prepared struct {
	Release string        // the release's name, "" where releases are not managed
	Command child.Command // without sockets, NOTIFY_SOCKET and cgroup: those are added by the supervisor
	// Ported returns Command for a generation that has these private ports, by the names of their sockets. It is called where
	// there are any, and may be nil where no socket is passed as a port.
	Ported func(ports map[string]int) (child.Command, error)
	Check  *child.Command // run to its end before anything is started; nil means none

	// Ready returns how to wait for the ready signal. notified is closed when the generation says READY=1; it can be
	// reached as new, once it is started.
	Ready func(notified <-chan struct{}, new *Target) child.Waiter
}
