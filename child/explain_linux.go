package child

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child/internal/shim"
)

// explain makes the sentence for a shim's report. The cause of an exec that failed
// is looked for here, after the fact, so it is only ever a better wording: the
// errno is what the kernel said.
func explain(c *Command, path string, r *shim.Report) *ExecError {
	e := &ExecError{Path: path, Err: r.Errno, reason: r.Errno.Error()}
	switch r.Stage {
	case shim.StageCgroup:
		e.Stage = StageCgroup
		e.reason = "it cannot be moved into its cgroup: " + e.reason
	case shim.StageLimits:
		e.Stage = StageLimits
		e.reason = explainLimit(c, int(r.Detail), r.Errno)
	case shim.StageUmask:
		e.Stage = StageUmask
	case shim.StageFilter:
		e.Stage = StageFilter
		e.reason = explainFilter(r)
	case shim.StageCredential:
		e.Stage = StageCredential
		e.reason = explainCredential(c.Credential, r.Errno)
	case shim.StageDirectory:
		e.Stage = StageDirectory
		e.reason = explainDirectory(c.Dir, c.Credential, r.Errno)
	case shim.StageDescriptors:
		e.Stage = StageDescriptors
		e.reason = "the supervisor's descriptors cannot be hidden from it: " + e.reason
	case shim.StageSignals:
		e.Stage = StageSignals
	case shim.StageExec:
		e.Stage = StageExec
		e.reason = explainExec(c, path, r.Errno)
	default:
		e.Stage = StageFork
		e.reason = "the supervisor's own start-up code in the child failed: " + e.reason
	}
	return e
}

func explainFork(err error) string {
	switch {
	case errors.Is(err, unix.EAGAIN):
		if which := exhausted(); which != "" {
			return "no further process may be made: " + which
		}
		return "no further process may be made: the limit of the cgroup (pids.max), of the user (RLIMIT_NPROC) or of the system (kernel.threads-max, kernel.pid_max) is reached"
	case errors.Is(err, unix.ENOMEM):
		return "there is not enough memory for a further process"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return "the supervisor has too many files open (RLIMIT_NOFILE)"
	case errors.Is(err, fs.ErrNotExist):
		return "the supervisor cannot run itself as " + shimPath + ": is /proc mounted?"
	}
	return "no process can be made for it: " + err.Error()
}

func explainLookPath(err error, env []string) string {
	if errors.Is(err, fs.ErrPermission) {
		return "what is found in PATH is not executable"
	}
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			return "it is in no directory of its PATH (" + value + ")"
		}
	}
	return "its environment has no PATH and it is in no directory of the usual one (" + defaultPath + ")"
}

func explainLimit(c *Command, i int, errno error) string {
	if i >= len(c.Limits) {
		return errno.Error()
	}
	l := c.Limits[i]
	text := fmt.Sprintf("its limit %s cannot be set to %s:%s: ", limitName(l.Resource), limitValue(l.Cur), limitValue(l.Max))
	switch {
	case errors.Is(errno, unix.EPERM):
		return text + "it is above the supervisor's own hard limit"
	case errors.Is(errno, unix.EINVAL) && l.Cur > l.Max:
		return text + "the soft limit is above the hard one"
	}
	return text + errno.Error()
}

func limitValue(v uint64) string {
	if v == unix.RLIM_INFINITY {
		return "infinity"
	}
	return strconv.FormatUint(v, 10)
}

func limitName(resource int) string {
	names := map[int]string{
		unix.RLIMIT_AS: "RLIMIT_AS", unix.RLIMIT_CORE: "RLIMIT_CORE", unix.RLIMIT_CPU: "RLIMIT_CPU",
		unix.RLIMIT_DATA: "RLIMIT_DATA", unix.RLIMIT_FSIZE: "RLIMIT_FSIZE", unix.RLIMIT_LOCKS: "RLIMIT_LOCKS",
		unix.RLIMIT_MEMLOCK: "RLIMIT_MEMLOCK", unix.RLIMIT_MSGQUEUE: "RLIMIT_MSGQUEUE", unix.RLIMIT_NICE: "RLIMIT_NICE",
		unix.RLIMIT_NOFILE: "RLIMIT_NOFILE", unix.RLIMIT_NPROC: "RLIMIT_NPROC", unix.RLIMIT_RSS: "RLIMIT_RSS",
		unix.RLIMIT_RTPRIO: "RLIMIT_RTPRIO", unix.RLIMIT_RTTIME: "RLIMIT_RTTIME",
		unix.RLIMIT_SIGPENDING: "RLIMIT_SIGPENDING", unix.RLIMIT_STACK: "RLIMIT_STACK",
	}
	if name, ok := names[resource]; ok {
		return name
	}
	return "number " + strconv.Itoa(resource)
}

func explainCredential(cred *Credential, errno error) string {
	who := who(cred)
	switch {
	case errors.Is(errno, unix.EPERM):
		return "the supervisor may not become " + who + ": it has to run as root, or with CAP_SETUID and CAP_SETGID"
	case errors.Is(errno, unix.EINVAL):
		return "it cannot become " + who + ": these numbers mean nothing in this user namespace"
	}
	return "it cannot become " + who + ": " + errno.Error()
}

func explainFilter(r *shim.Report) string {
	const text = "the supervisor cannot be told of its calls of bind(2), which pass = \"adopt\" takes: "
	switch {
	case r.Detail != shim.FilterInstall:
		return text + r.Errno.Error()
	case r.Errno == unix.EBUSY:
		return text + "it runs under a program that does the same, such as another supervisor or a container manager, and there can be one only"
	case r.Errno == unix.EINVAL, r.Errno == unix.ENOSYS:
		return text + "that needs Linux 5.9 with CONFIG_SECCOMP_FILTER"
	case r.Errno == unix.EPERM, r.Errno == unix.EACCES:
		return text + "seccomp(2) is forbidden here, by a container's profile or SystemCallFilter="
	}
	return text + r.Errno.Error()
}

func explainDirectory(dir string, cred *Credential, errno error) string {
	switch {
	case errors.Is(errno, fs.ErrNotExist):
		return "its working directory " + dir + " does not exist"
	case errors.Is(errno, unix.ENOTDIR):
		return "its working directory " + dir + " is not a directory"
	case errors.Is(errno, fs.ErrPermission):
		text := who(cred) + " may not enter its working directory " + dir
		if at := closedDirectory(dir, cred); at != "" && at != filepath.Clean(dir) {
			text += ", because of " + at
		}
		return text
	}
	return "its working directory " + dir + " cannot be entered: " + errno.Error()
}
