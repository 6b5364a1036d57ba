package child

// A Stage is a step on the way from fork to the running program.
type Stage string

// The stages in their order.
const (
	StageFork        Stage = "fork"        // making the process
	StageCgroup      Stage = "cgroup"      // moving it into Command.Cgroup
	StageLimits      Stage = "limits"      // setting Command.Limits
	StageUmask       Stage = "umask"       // setting Command.Umask
	StageFilter      Stage = "filter"      // having its calls of bind(2) told, for Command.Offers
	StageCredential  Stage = "credential"  // becoming Command.Credential
	StageDirectory   Stage = "directory"   // entering Command.Dir
	StageDescriptors Stage = "descriptors" // hiding the supervisor's descriptors
	StageSignals     Stage = "signals"     // resetting signals
	StageExec        Stage = "exec"        // executing Command.Path
)

// An ExecError is a program that could not be started. Its text is one sentence
// that names the program, the cause, and what is in the way.
type ExecError struct {
	Path  string // the program
	Stage Stage  // the step that failed
	Err   error  // most often a syscall.Errno, so that fs.ErrNotExist and the like match

	reason string
}

// Error is such as "cannot start /srv/x/bin/svc: no such file or directory".
func (e *ExecError) Error() string {
	reason := e.reason
	if reason == "" {
		reason = e.Err.Error()
	}
	return "cannot start " + e.Path + ": " + reason
}

// Unwrap returns Err.
func (e *ExecError) Unwrap() error { return e.Err }
