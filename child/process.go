package child

import "golang.org/x/sys/unix"

// A Process is the main process of a generation, held by a pidfd.
type Process struct{}

// Pid is the process ID.
func (p *Process) Pid() int { return 0 }

// StartTime is when the process was started, in clock ticks since boot.
func (p *Process) StartTime() uint64 { return 0 }

// Signal sends a signal; os.ErrProcessDone if the process has ended.
func (p *Process) Signal(sig unix.Signal) error { return errTodo }

// Done is closed once the process has ended and was waited for.
func (p *Process) Done() <-chan struct{} { return nil }

// Exit is how the process ended. It is the zero Exit until Done is closed.
func (p *Process) Exit() Exit { return Exit{} }

// Tree is the process with all that descend from it.
func (p *Process) Tree() *Tree { return nil }

// Close gives the pidfd back. The process itself is left alone.
func (p *Process) Close() error { return nil }

// An Adoption names a running process that this process did not start.
type Adoption struct {
	Pid       int
	StartTime uint64  // as Process.StartTime said
	Notify    string  // as in its Command
	Cgroup    *Cgroup // as in its Command
}

// Adopt takes a running process over. os.ErrProcessDone if it is gone.
func Adopt(a Adoption) (*Process, error) { return nil, errTodo }

// Exit is how a process ended.
type Exit struct {
	Known  bool        // false: ended, but nobody could tell us how
	Code   int         // exit status, if Signal is 0
	Signal unix.Signal // what killed it, or 0
	Core   bool        // a core was dumped
}

// Success says whether the process is known to have ended with status 0.
func (e Exit) Success() bool { return e.Known && e.Code == 0 && e.Signal == 0 }

// String is "exit status 3" or "killed by SIGSEGV".
func (e Exit) String() string { return "" }
