package child

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// A caller is a thread whose system call waits for an answer. Everything that is found out about it
// holds only if the notification still waits afterwards.
type caller uint32

// pidfdThread is PIDFD_THREAD, see pidfd_open(2).
const pidfdThread = unix.O_EXCL

// socket returns a duplicate, which the caller of this function owns, of one of the thread's
// descriptors. It takes the right to trace the process, see pidfd_getfd(2).
func (c caller) socket(number int) (*fdpass.FD, error) {
	fd, err := unix.PidfdOpen(int(c), pidfdThread)
	if err != nil { // before Linux 6.9 there are processes only
		if fd, err = unix.PidfdOpen(c.process(), 0); err != nil {
			return nil, os.NewSyscallError("pidfd_open", err)
		}
	}
	defer unix.Close(fd)
	raw, err := unix.PidfdGetfd(fd, number, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_getfd", err)
	}
	return fdpass.NewFD(raw), nil
}

// process returns the pid of the thread's process, or its own number where that cannot be seen.
func (c caller) process() int {
	if pid, err := strconv.Atoi(field(c.file("status"), "Tgid:")); err == nil {
		return pid
	}
	return int(c)
}

// memory reads what the thread has at an address.
func (c caller) memory(at uint64, size int) ([]byte, error) {
	b := make([]byte, size)
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(size)
	n, err := unix.ProcessVMReadv(int(c), local, []unix.RemoteIovec{{Base: uintptr(at), Len: size}}, 0)
	if err != nil {
		return nil, os.NewSyscallError("process_vm_readv", err)
	}
	return b[:n], nil
}

// locate returns where this process finds a path of the thread's.
func (c caller) locate(path string) string {
	if strings.HasPrefix(path, "/") {
		return c.file("root") + path
	}
	return c.file("cwd/") + path
}

// closesOnExec reports whether a descriptor is marked so.
func (c caller) closesOnExec(number int) bool {
	flags, err := strconv.ParseUint(field(c.file("fdinfo/"+strconv.Itoa(number)), "flags:"), 8, 64)
	return err == nil && flags&unix.O_CLOEXEC != 0
}

// inode returns the inode number of the socket that a descriptor is; 0 if it is none.
func (c caller) inode(number int) uint64 {
	link, err := os.Readlink(c.file("fd/" + strconv.Itoa(number)))
	text, ok := strings.CutPrefix(link, socketLink)
	if err != nil || !ok {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64)
	return n
}

// String names the process for messages: "process 123 (nginx)".
func (c caller) String() string {
	name, err := os.ReadFile(c.file("comm"))
	if err != nil {
		return fmt.Sprintf("process %d", c.process())
	}
	return fmt.Sprintf("process %d (%s)", c.process(), strings.TrimSpace(string(name)))
}

func (c caller) file(name string) string { return fmt.Sprintf("/proc/%d/%s", uint32(c), name) }

// field returns what a file of proc(5) has after a label, or "".
func field(path, label string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, label); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
