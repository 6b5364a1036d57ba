package shim

import "syscall"

const (
	sysCloseRange     = 436 // the same number on all but mips, which takes the other way
	closeRangeCloexec = 1 << 2
)

// closeOnExec marks all descriptors from Keep on. The parent opens everything
// that way, but a library in it may not.
func closeOnExec(s *Spec) (uint32, error) {
	// Linux 5.11, see close_range(2).
	_, _, e := syscall.RawSyscall(sysCloseRange, uintptr(s.Keep), uintptr(^uint32(0)), closeRangeCloexec)
	if e == 0 {
		return 0, nil
	}
	return 0, markEach(s.Keep)
}

// markEach does the same by the list of open descriptors.
func markEach(from uint32) error {
	dir, err := retry(func() (int, error) {
		return syscall.Open("/proc/self/fd", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return err
	}
	defer syscall.Close(dir)
	buf := make([]byte, 8192)
	for {
		n, err := retry(func() (int, error) { return syscall.ReadDirent(dir, buf) })
		if err != nil || n == 0 {
			return err
		}
		_, _, names := syscall.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			// parseFD leaves out 0, 1 and 2, which are always kept.
			if fd, ok := parseFD(name); ok && uint32(fd) >= from {
				syscall.CloseOnExec(fd)
			}
		}
	}
}
