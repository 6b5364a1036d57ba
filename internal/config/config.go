package config

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// Config is everything that a supervisor can be told. Load fills in the
// defaults, makes every path absolute and checks everything; a Config made by
// hand is taken as it is.
type Config struct {
	// Name tells this supervisor from the others on the machine. It is good as
	// a unit name and as a file name, see systemd.CheckName.
	Name string

	// Command is the service's program and its arguments, with placeholders; see
	// Values. A program with a slash in it is relative to Directory, one without
	// is to be looked up in the PATH of Environ.
	Command []string

	// Directory is the working directory of the service and of the check and
	// ready commands.
	Directory string

	// Environment is added to the environment of the service, and wins over
	// what it inherits and over EnvironmentFiles; see Environ.
	Environment map[string]string

	// EnvironmentFiles are read in order. A leading '-' marks one that need not
	// exist.
	EnvironmentFiles []string

	// User and Group are names or numbers, see child.LookupCredential. Empty
	// stands for the supervisor's own user, and for the user's own group.
	User, Group string

	// Umask is the file mode creation mask of the service; nil leaves the
	// supervisor's own.
	Umask *uint32

	// Limits are resource limits, in the order of their names.
	Limits []Limit

	// Sockets are in the order in which the service gets them, with unique
	// names filled in.
	Sockets []fdpass.Spec

	// Places say where each of Sockets was asked for, for messages:
	// "app.toml:12: socket.listen", or the flag.
	Places []string

	// Pass are the protocols by which the service is told of Sockets. Nil, as it was
	// saved by a supervisor that knew no others, means child.PassListenFDs.
	Pass []child.Pass

	// Preset is the name of the Preset whose values stand in for what is not
	// configured, or "". They are in the other fields already.
	Preset string

	// Check is run before anything is started. Without a command there is no
	// check.
	Check Check

	Hooks Hooks

	Ready   Ready
	Probe   Probe
	Handoff Handoff
	Settle  Settle
	Drain   Drain

	// Watchdog is how often the service must say WATCHDOG=1; 0 means that it
	// need not.
	Watchdog time.Duration

	Releases Releases

	// Cgroup says whether each generation gets a control group of its own.
	Cgroup CgroupMode

	// RuntimeDirectory holds the sockets to control and to notify the
	// supervisor, StateDirectory what must outlive a reboot. Load does not
	// create them.
	RuntimeDirectory, StateDirectory string

	// FailFast ends the supervisor if the first start of the service fails,
	// instead of trying again.
	FailFast bool

	Log     Log
	Metrics Metrics

	// UpgradeTimeout is how long a supervisor that is to follow this one may take.
	UpgradeTimeout time.Duration // never 0
}

// A Limit is one resource limit, see getrlimit(2).
type Limit struct {
	Name       string // as in the configuration: "nofile"
	Resource   int    // RLIMIT_NOFILE
	Soft, Hard uint64 // unix.RLIM_INFINITY means none
}

// Check is a command that must succeed before a new generation is started.
type Check struct {
	Command []string
	Timeout time.Duration
}

// Hooks are commands that are run at certain points of a handoff.
type Hooks struct {
	BeforeCutover, AfterLive, AfterGone []string
	Timeout                             time.Duration // of each; never 0
}

// Ready says how a generation shows that it is ready.
type Ready struct {
	By      ReadyBy
	Timeout time.Duration // never 0

	// FD is the descriptor on which the service writes a newline when it is
	// ready, with ByFD: the first one after the sockets, or 0 if it was left out.
	FD int

	// Path and Host are what is asked for, with ByHTTP. An empty Host stands for
	// the socket's address.
	Path, Host string

	// Socket is the name of the one of Sockets that is asked. Only used with
	// ByHTTP and ByAccept.
	Socket string

	// Command is run until it succeeds. Only used with ByExec.
	Command []string

	// Interval is the time between two attempts of ByHTTP, ByAccept and ByExec.
	Interval time.Duration

	// Delay is only used with ByDelay.
	Delay time.Duration
}

// ReadyBy is a way to show readiness.
type ReadyBy string

const (
	ByNotify  ReadyBy = "notify"  // READY=1 on the notify socket
	ByFD      ReadyBy = "fd"      // a newline on a descriptor
	ByHTTP    ReadyBy = "http"    // it answers a request, with a status of 2xx or 3xx
	ByAccept  ReadyBy = "accept"  // it accepts a connection
	ByExec    ReadyBy = "exec"    // a command succeeds
	ByEinhorn ReadyBy = "einhorn" // worker:ack on einhorn's command socket
	ByDelay   ReadyBy = "delay"   // some time has passed
)

// Probe is a request that a new generation must answer before clients get to it,
// and from then on until the old one is drained. Without a path there is none.
type Probe struct {
	Path, Host string        // an empty Host stands for the socket's address
	Socket     string        // the name of the one of Config.Sockets that is asked
	Status     int           // the status it must have; 0 takes any of 2xx and 3xx
	Count      int           // how many in a row must succeed before clients get there
	Timeout    time.Duration // of each request; never 0
	Interval   time.Duration // between two of them during canary and soak; never 0
}

// Handoff says how new connections move from the old generation to the new one.
type Handoff struct {
	// Canary are the steps in which they move, before the new one gets all. The
	// shares grow. Empty moves all at once.
	Canary []CanaryStep
	// Soak is how long the old one stays in reach after that.
	Soak time.Duration
	// KeepAlive is what becomes of the old one's kept-alive connections. Where they
	// are carried over, CarryWait is how long an ordinary request takes at most,
	// CarryIdle how long one is held whose client sends nothing, and CarryRelays
	// how many requests are passed on at once. None is 0.
	KeepAlive            KeepAlive
	CarryWait, CarryIdle time.Duration
	CarryRelays          int
	// Probation is how soon after it became live a generation that ends by itself
	// speaks against its release; 0 for never. AutoRollback has the release before
	// started in its place then, after a deploy.
	Probation    time.Duration
	AutoRollback bool
}

// A CanaryStep is a time in which the new generation gets a part of the new
// connections.
type CanaryStep struct {
	Share float64 // more than 0 and less than 1, which is all
	Time  time.Duration
}

// Settle says how long a handoff waits for the old generation to be quiet.
type Settle struct {
	Max time.Duration // 0 does not wait
}

// Drain says how an old generation is stopped.
type Drain struct {
	Linger      time.Duration // before Signal, for its connections to end by themselves
	Signal      unix.Signal   // asks its main process to finish and exit
	Timeout     time.Duration // after which its whole tree is killed; 0 kills at once
	Generations int           // how many may drain at once; past that the oldest is killed
}

// Releases says where the service's releases lie. It is empty where releases
// are not managed.
type Releases struct {
	Directory string // has a directory for each release
	Current   string // a symbolic link to one of them
	Keep      int    // how many stay after a handoff; 0 for all
}

// CgroupMode says whether the supervisor makes control groups.
type CgroupMode string

const (
	CgroupAuto CgroupMode = "auto" // where one is delegated to the supervisor
	CgroupOff  CgroupMode = "off"
)
