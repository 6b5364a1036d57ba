package shim

import "syscall"

// exitFailed is the status of a shim that has not become its program. The parent
// goes by the report; the status is for whoever watches with strace.
const exitFailed = 127

// init does not return in a process that is a shim, and at once in all others.
// The runtime runs it on the process's first thread and locks it there, which
// credentials and later steps rely on: they belong to a thread, and exec takes
// those of the thread that calls it.
func init() {
	value, ok := syscall.Getenv(Variable)
	if !ok {
		return
	}
	fd, ok := parseFD(value)
	if !ok || !named() {
		return
	}
	report := run(fd)
	writeAll(fd, encodeReport(report))
	syscall.Exit(exitFailed)
}

// parseFD reads a descriptor above the standard ones.
func parseFD(s string) (int, bool) {
	if len(s) == 0 || len(s) > 9 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, n > 2
}

// named says whether argv[0] is Name. The runtime hands the arguments to package
// os only, so the kernel is asked.
func named() bool {
	fd, err := retry(func() (int, error) {
		return syscall.Open("/proc/self/cmdline", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	})
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	buf := make([]byte, len(Name)+1)
	return readFull(fd, buf) == nil && string(buf) == Name+"\x00"
}

// run reads the spec and carries it out. It returns only what went wrong.
func run(fd int) Report {
	spec, err := readSpec(fd)
	if err != nil {
		return Report{Stage: StageSpec, Errno: errno(err)}
	}
	spec.socket = fd
	for _, step := range steps() {
		if step.stage == StageExec && writeAll(fd, []byte{recordReady}) != nil {
			return Report{Stage: StageSpec, Errno: syscall.EPIPE} // nobody waits for this child any more
		}
		if detail, err := step.do(spec); err != nil {
			return Report{Stage: step.stage, Errno: errno(err), Detail: detail}
		}
	}
	return Report{Stage: StageExec, Errno: syscall.EINVAL} // the last step does not return
}

func readSpec(fd int) (*Spec, error) {
	header := make([]byte, HeaderSize)
	if err := readFull(fd, header); err != nil {
		return nil, err
	}
	n, err := DecodeHeader(header)
	if err != nil {
		return nil, err
	}
	body := make([]byte, n)
	if err := readFull(fd, body); err != nil {
		return nil, err
	}
	return Decode(body)
}

// readFull fills buf from fd, which blocks.
func readFull(fd int, buf []byte) error {
	for len(buf) > 0 {
		n, err := retry(func() (int, error) { return syscall.Read(fd, buf) })
		if err != nil {
			return err
		}
		if n == 0 {
			return syscall.EPROTO
		}
		buf = buf[n:]
	}
	return nil
}

// writeAll writes buf to the socket. MSG_NOSIGNAL because SIGPIPE has its default
// action by the time of the last writes.
func writeAll(fd int, buf []byte) error {
	for len(buf) > 0 {
		n, err := retry(func() (int, error) {
			return syscall.SendmsgN(fd, buf, nil, nil, syscall.MSG_NOSIGNAL)
		})
		if err != nil {
			return err
		}
		buf = buf[n:]
	}
	return nil
}

// retry calls f again while a signal interrupts it.
func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != syscall.EINTR {
			return n, err
		}
	}
}

// errno is the number in an error of package syscall.
func errno(err error) syscall.Errno {
	if e, ok := err.(syscall.Errno); ok && e != 0 {
		return e
	}
	return syscall.EINVAL
}
