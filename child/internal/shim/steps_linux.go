package shim

import (
	"syscall"
	"unsafe"
)

// A step is one thing that a shim does to itself. An error ends the shim; detail
// tells the parent more about it where the stage says so.
type step struct {
	stage Stage
	do    func(*Spec) (detail uint32, err error)
}

// steps are all steps in their order, which matters: what needs the supervisor's
// rights comes before the credential, what the service's user must be allowed to
// do comes after it, and after the signals are reset nothing may take long.
func steps() []step {
	return []step{
		{StageCgroup, joinCgroup},
		{StageLimits, setLimits},
		{StageUmask, setUmask},
		{StageFilter, installFilter},
		{StageCredential, setCredential},
		{StageDirectory, enterDirectory},
		{StageDescriptors, closeOnExec},
		{StageSignals, resetSignals},
		{StageExec, execute},
	}
}

// joinCgroup moves the whole process, see cgroups(7). It is for kernels and
// seccomp filters that refuse to have it born there.
func joinCgroup(s *Spec) (uint32, error) {
	if s.Cgroup == "" {
		return 0, nil
	}
	fd, err := retry(func() (int, error) {
		return syscall.Open(s.Cgroup, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return 0, err
	}
	_, err = retry(func() (int, error) { return syscall.Write(fd, []byte("0")) })
	syscall.Close(fd)
	return 0, err
}

// setLimits uses the syscall package's own call, because for RLIMIT_NOFILE that
// also forgets the value that Exec would put back otherwise.
func setLimits(s *Spec) (uint32, error) {
	for i, l := range s.Limits {
		limit := syscall.Rlimit{Cur: l.Cur, Max: l.Max}
		if err := syscall.Setrlimit(int(l.Resource), &limit); err != nil {
			return uint32(i), err
		}
	}
	return 0, nil
}

func setUmask(s *Spec) (uint32, error) {
	if s.Umask != nil {
		syscall.Umask(int(*s.Umask))
	}
	return 0, nil
}

// enterDirectory runs with the rights of the service's user: a directory that
// only the supervisor could enter is better refused now than found out by the
// service later, and on a network file system only that user may have the right.
func enterDirectory(s *Spec) (uint32, error) {
	if s.Dir == "" {
		return 0, nil
	}
	return 0, syscall.Chdir(s.Dir)
}

// resetSignals gives every signal its default action and blocks none. Exec would
// keep what is ignored and what is blocked, see signal(7), and the supervisor may
// itself have been started with some of both.
func resetSignals(*Spec) (uint32, error) {
	// The kernel's struct sigaction differs between architectures, but zeros are
	// SIG_DFL, no flags and an empty mask in all of them.
	var action [64]byte
	for sig := uintptr(1); sig <= 64; sig++ {
		// SIGKILL and SIGSTOP answer EINVAL and cannot be ignored anyway.
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, sigsetSize, 0, 0)
	}
	var mask [16]byte
	_, _, e := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetMask, uintptr(unsafe.Pointer(&mask)), 0, sigsetSize, 0, 0)
	if e != 0 {
		return 0, e
	}
	return 0, nil
}

func execute(s *Spec) (uint32, error) {
	env := s.Env
	if s.ListenPID {
		env = append(env, "LISTEN_PID="+decimal(syscall.Getpid()))
	}
	return 0, syscall.Exec(s.Path, s.Args, env)
}

func decimal(n int) string {
	var buf [20]byte
	i := len(buf)
	for {
		i--
		buf[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(buf[i:])
		}
	}
}
