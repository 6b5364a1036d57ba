package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child/internal/shim"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// errReaperClosed is what starting after Close returns.
var errReaperClosed = fmt.Errorf("reaper: %w", os.ErrClosed)

// errShimDied is a shim that ended without a word.
var errShimDied = errors.New("the new process ended before its program could run")

// Start starts a process in a session of its own and returns once its program
// runs: exec has succeeded. ctx bounds the start alone, not the life of the
// process. The caller closes the Process.
//
// A program that cannot be run is an *ExecError, and nothing is left of it.
func (r *Reaper) Start(ctx context.Context, c Command) (*Process, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("start %q: %w", c.Path, err)
	}
	path, err := lookPath(c.Path, c.Env)
	if err != nil {
		return nil, &ExecError{Path: c.Path, Stage: StageExec, Err: err, reason: explainLookPath(err, c.Env)}
	}
	files, closeNull, err := c.files()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	defer closeNull()

	spec, err := c.spec(path, len(files))
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	p, report, err := r.launch(ctx, &c, files, spec)
	var refused *ExecError
	switch {
	case errors.As(err, &refused):
		return nil, err
	case errors.Is(err, errShimDied):
		reason := fmt.Sprintf("%v (%v)", err, p.Exit())
		if which := exhausted(); which != "" { // it has threads, too
			reason += ": " + which
		}
		return nil, &ExecError{Path: path, Stage: StageFork, Err: err, reason: reason}
	case err != nil:
		return nil, fmt.Errorf("start %s: %w", path, err)
	case report != nil:
		return nil, explain(&c, path, report)
	}
	return p, nil
}

// launch starts a shim and sees it through. Unless it becomes its program, it has
// been waited for when launch returns, and the process is good for its Exit only.
func (r *Reaper) launch(ctx context.Context, c *Command, files []uintptr, spec *shim.Spec) (*Process, *shim.Report, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	defer ours.Close()
	p, born, err := r.fork(c, append(files, uintptr(theirs)))
	unix.Close(theirs)
	if err != nil {
		return nil, nil, err
	}
	if c.Cgroup != nil && !born {
		spec.Cgroup = c.Cgroup.procsFile()
	}
	report, listener, err := converse(ctx, ours, spec)
	if report == nil && err == nil {
		if err = p.lend(listener, c); err == nil {
			return p, nil, nil
		}
	} else if listener >= 0 {
		unix.Close(listener)
	}
	// Most often it ends by itself now.
	_ = p.fd.signal(unix.SIGKILL)
	select {
	case <-p.done:
	case <-r.stopped:
	}
	p.Close()
	return p, report, err
}

// converse gives the spec to a shim and listens until it closes the socket, which
// exec does too. The caller owns the listener of the spec's filter, which is -1 where
// none has come.
func converse(ctx context.Context, socket *os.File, spec *shim.Spec) (_ *shim.Report, listener int, _ error) {
	encoded, err := shim.Encode(spec)
	if err != nil {
		// Of what is too long for it, the kernel would say the same.
		return &shim.Report{Stage: shim.StageExec, Errno: err.(syscall.Errno)}, -1, nil
	}
	stop := cancelIO(ctx, socket.SetDeadline)
	defer stop()
	_, writeErr := socket.Write(encoded)
	// Also after an error, since the shim may have said why it reads no further.
	said, listener, readErr := hear(socket)
	if err := errors.Join(writeErr, readErr); errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, listener, context.Cause(ctx)
	}
	// A reset is an end too: the shim left something unread.
	report, err := shim.DecodeReports(said)
	if err != nil {
		return nil, listener, errShimDied
	}
	return report, listener, nil
}

// socketPair returns two connected sockets. The first does not block, so that the
// runtime polls it; the second does, and the caller closes it.
func socketPair() (ours *os.File, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, os.NewSyscallError("socketpair", err)
	}
	// The two are open files of their own, so this does not reach the child's.
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		unix.Close(pair[1])
		return nil, -1, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(pair[0]), "shim"), pair[1], nil
}

// fork starts a shim that has files as its descriptors 0, 1, ..., the last of them
// its socket, and registers it. born says that it is in the command's cgroup.
func (r *Reaper) fork(c *Command, files []uintptr) (p *Process, born bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, false, errReaperClosed
	}
	raw := -1
	attr := &syscall.ProcAttr{
		Env:   shimEnv(len(files) - 1),
		Files: files, // numbers, as (*os.File).Fd() would make sockets block for everybody
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &raw},
	}
	if c.Cgroup != nil && !r.noClone3 {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, c.Cgroup.raw()
	}
	pid, err := syscall.ForkExec(shimPath, []string{shim.Name}, attr)
	// Before Linux 5.7 and under seccomp filters such as that of systemd's
	// RestrictNamespaces=. The shim then goes there before the program runs.
	if attr.Sys.UseCgroupFD && clone3Refused(err) {
		r.noClone3 = true
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = false, 0
		pid, err = syscall.ForkExec(shimPath, []string{shim.Name}, attr)
	}
	if err != nil {
		return nil, false, &ExecError{Path: c.Path, Stage: StageFork, Err: err, reason: explainFork(err)}
	}
	p, err = r.registerLocked(c, pid, raw)
	return p, attr.Sys.UseCgroupFD, err
}

// registerLocked makes the Process of a child that was just forked. It takes the
// pidfd raw, -1 where clone(2) made none (before Linux 5.2).
func (r *Reaper) registerLocked(c *Command, pid, raw int) (p *Process, err error) {
	var fd *pidfd
	if raw < 0 {
		fd, err = openPidfd(pid)
	} else {
		fd, err = newPidfd(raw)
	}
	var st procStat
	if err == nil {
		if st, err = readStat(pid); err != nil {
			fd.close()
		}
	}
	if err != nil {
		// The shim ends by itself, as nobody will talk to it. It has to be known
		// to be waited for.
		r.children[pid] = newProcess(procID{pid: pid}, nil)
		return nil, fmt.Errorf("hold on to the new process: %w", err)
	}
	p = newProcess(st.procID, fd)
	p.tree.notify = c.Notify
	p.tree.cgroup = c.Cgroup
	p.tree.uid = uint32(os.Geteuid())
	if c.Credential != nil {
		p.tree.uid = c.Credential.UID
	}
	r.children[pid] = p
	return p, nil
}

// shimPath is this very binary, even if its file was replaced meanwhile.
const shimPath = "/proc/self/exe"

// shimEnv is the environment of a shim, none of which reaches the program. The
// shim lives for a millisecond on a few kilobytes: starting the garbage collector
// and more than one thread for Go code would only cost time.
func shimEnv(socket int) []string {
	return []string{shim.Variable + "=" + strconv.Itoa(socket), "GOGC=off", "GOMAXPROCS=1"}
}

// clone3Refused says whether err is how a kernel or a filter answers that has no
// clone3(2) or no CLONE_INTO_CGROUP in it.
func clone3Refused(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.E2BIG)
}

// files are the descriptors of the child, by position, and a function that closes
// what was opened for it.
func (c *Command) files() (files []uintptr, closeNull func(), err error) {
	null := -1
	closeNull = func() {
		if null >= 0 {
			unix.Close(null)
		}
	}
	defer func() {
		if err != nil {
			closeNull()
		}
	}()
	add := func(what string, fd *fdpass.FD) {
		raw := fd.Raw()
		if raw < 0 && err == nil {
			err = fmt.Errorf("%s: %w", what, os.ErrClosed)
		}
		files = append(files, uintptr(raw))
	}
	for i, fd := range []*fdpass.FD{c.Stdin, c.Stdout, c.Stderr} {
		switch {
		case fd != nil:
			add("descriptor "+strconv.Itoa(i), fd)
		case i > 0:
			files = append(files, uintptr(i))
		default:
			null, err = ignoringEINTR(func() (int, error) { return unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0) })
			if err != nil {
				return nil, nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
			}
			files = append(files, uintptr(null))
		}
	}
	for _, s := range c.Sockets {
		add("socket "+strconv.Quote(s.Name), s.FD)
	}
	for i, fd := range c.Extra {
		add("extra descriptor "+strconv.Itoa(i), fd)
	}
	return files, closeNull, err
}
