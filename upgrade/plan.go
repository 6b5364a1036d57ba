package upgrade

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// Plan is what a configuration asks for. It is read anew for each handoff, and kept for restarts after a crash: an
// edited file comes into force when somebody asks for it, not when the service happens to crash.
type Plan struct {
	Sockets []fdpass.Spec // in the order in which the service gets them
	Places  []string      // where each of them was asked for, for messages; may be nil

	// Prepare resolves everything that a generation is started with: the command's path, its working directory,
	// environment files, user and release. It is called for each generation, after a crash too, and so never sees
	// what an earlier one was resolved to. It may block on the file system.
	Prepare func(generation int) (*Prepared, error)

	ReadyTimeout time.Duration // how long the ready signal may take
	CheckTimeout time.Duration // how long the check command may take
	SettleMax    time.Duration // how long settling may take
	Watchdog     time.Duration // a live generation must say WATCHDOG=1 this often; 0 means that it need not

	DrainSignal      unix.Signal   // asks a generation's main process to finish and exit
	DrainTimeout     time.Duration // after which its whole tree is killed
	DrainGenerations int           // how many may drain at once; past that the oldest is killed
}

// Prepared is a generation as it is about to be started.
type Prepared struct {
	Release string         // the release's name, "" where releases are not managed
	Command child.Command  // without sockets, NOTIFY_SOCKET and cgroup: those are added by the supervisor
	Check   *child.Command // run to its end before anything is started; nil means none

	// Ready returns how to wait for the ready signal. notified is closed when the generation says READY=1.
	Ready func(notified <-chan struct{}) child.Waiter
}
