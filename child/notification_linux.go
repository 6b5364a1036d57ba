package child

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A notification is a system call that waits for an answer, struct seccomp_notif of
// seccomp_unotify(2). The numbers of the ioctl(2) calls have its size in them, so that it
// is the same for ever.
type notification struct {
	id    uint64
	pid   uint32 // of the thread, as this process sees it
	flags uint32
	call  int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// descriptor returns the first argument of bind(2) and listen(2).
func (n *notification) descriptor() int { return int(int32(n.args[0])) }

// receive returns the next notification of a listener. It does not block where poll(2) says that
// there is one, and returns ENOENT if the thread was killed meanwhile.
func receive(listener int) (*notification, error) {
	n := new(notification)
	err := control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(n))
	return n, err
}

// waits reports whether the thread still waits for the answer. Before that is known, what was
// found by its number may be somebody else's.
func (n *notification) waits(listener int) bool {
	id := n.id
	return control(listener, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == nil
}

// goOn lets the kernel carry the call out as it is.
func (n *notification) goOn(listener int) error {
	return n.answer(listener, unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE)
}

// succeed lets the call return 0 without more.
func (n *notification) succeed(listener int) error { return n.answer(listener, 0) }

// answer sends struct seccomp_notif_resp.
func (n *notification) answer(listener int, flags uint32) error {
	response := struct {
		id    uint64
		value int64
		errno int32
		flags uint32
	}{id: n.id, flags: flags}
	return control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&response))
}

// replace puts a duplicate of the descriptor fd, which is borrowed, in the place of the thread's
// descriptor number (Linux 5.9).
func (n *notification) replace(listener, number, fd int, closeOnExec bool) error {
	add := struct { // struct seccomp_notif_addfd
		id                       uint64
		flags, from, to, fdFlags uint32
	}{id: n.id, flags: unix.SECCOMP_ADDFD_FLAG_SETFD, from: uint32(fd), to: uint32(number)}
	if closeOnExec {
		add.fdFlags = unix.O_CLOEXEC
	}
	return control(listener, unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&add))
}

// control is ioctl(2). A signal that interrupts it has changed nothing.
func control(fd int, request uintptr, argument unsafe.Pointer) error {
	for {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument))
		switch e {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return os.NewSyscallError("ioctl", e)
		}
	}
}
