package child

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// An Exit is how a process ended. The zero value says that nobody knows.
type Exit struct {
	Known  bool        // false: it ended, or not yet, and nobody could tell us how
	Code   int         // the exit status, if Signal is 0
	Signal unix.Signal // what killed it, or 0
	Core   bool        // a core was dumped
}

// exitOf reads the status that wait4(2) gives for a process that has ended.
func exitOf(status unix.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Known: true, Signal: status.Signal(), Core: status.CoreDump()}
	}
	return Exit{Known: true, Code: status.ExitStatus()}
}

// Success says whether the process is known to have ended with status 0.
func (e Exit) Success() bool { return e.Known && e.Code == 0 && e.Signal == 0 }

// String is such as "exit status 3", "killed by SIGSEGV (core dumped)" or
// "exit status unknown".
func (e Exit) String() string {
	switch {
	case !e.Known:
		return "exit status unknown"
	case e.Signal == 0:
		return "exit status " + strconv.Itoa(e.Code)
	}
	name := unix.SignalName(e.Signal)
	if name == "" {
		name = "signal " + strconv.Itoa(int(e.Signal)) // real-time signals have no names
	}
	if e.Core {
		return "killed by " + name + " (core dumped)"
	}
	return "killed by " + name
}
