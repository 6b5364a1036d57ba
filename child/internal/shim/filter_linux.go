package shim

import (
	"syscall"
	"unsafe"
)

// See seccomp(2) and prctl(2).
const (
	setModeFilter    = 1
	flagSpecAllow    = 1 << 2 // Linux 4.17: processes with a filter are not slowed down
	flagNewListener  = 1 << 3 // Linux 5.0
	flagWaitKillable = 1 << 5 // Linux 5.19: signals wait while a call is being answered
	setNoNewPrivs    = 38
)

// installFilter puts Filter on this thread, which is the one that becomes the program,
// and sends the descriptor on which it notifies to the parent. It comes before the
// credential: with CAP_SYS_ADMIN programs that the service runs may still gain
// privileges, and without it that has to be given up for good.
func installFilter(s *Spec) (uint32, error) {
	if s.Filter == nil {
		return 0, nil
	}
	listener, err := s.Filter.install()
	if err == syscall.EACCES {
		if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, setNoNewPrivs, 1, 0, 0, 0, 0); e != 0 {
			return FilterPrivileges, e
		}
		listener, err = s.Filter.install()
	}
	if err != nil {
		return FilterInstall, err
	}
	defer syscall.Close(listener)
	rights := syscall.UnixRights(listener)
	_, err = retry(func() (int, error) {
		return syscall.SendmsgN(s.socket, []byte{recordListener}, rights, nil, syscall.MSG_NOSIGNAL)
	})
	if err != nil {
		return FilterSend, err
	}
	return 0, nil
}

// install returns the listener, which is close-on-exec.
func (f *Filter) install() (listener int, err error) {
	program := struct {
		length uint16
		first  *byte
	}{uint16(len(f.Program) / InstructionSize), &f.Program[0]}
	const flags = flagNewListener | flagSpecAllow
	for _, flags := range []uintptr{flags | flagWaitKillable, flags} {
		fd, _, e := syscall.RawSyscall(uintptr(f.Call), setModeFilter, flags, uintptr(unsafe.Pointer(&program)))
		if e == 0 {
			return int(fd), nil
		}
		if err = e; e != syscall.EINVAL {
			break
		}
	}
	return -1, err
}
