package carry

import (
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dam is a filter that drops what brings data, and nothing else: acknowledgments, ends and resets pass. The client's kernel sends again what was
// dropped, 200 ms later at first, see RFC 6298. It begins at the TCP header.
var dam = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 12}, // the length of the header, in its upper half
	{Code: unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K, K: 4},
	{Code: unix.BPF_ALU | unix.BPF_LSH | unix.BPF_K, K: 2},
	{Code: unix.BPF_MISC | unix.BPF_TAX},
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_LEN},
	{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_X, Jt: 0, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
}

// setDam attaches the dam to the connection raw, which is borrowed. It counts for whoever has it: nothing arrives on it any more.
func setDam(raw int) error {
	prog := unix.SockFprog{Len: uint16(len(dam)), Filter: &dam[0]}
	return os.NewSyscallError("setsockopt SO_ATTACH_FILTER", unix.SetsockoptSockFprog(raw, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog))
}

// liftDam takes it away.
func liftDam(raw int) error {
	return os.NewSyscallError("setsockopt SO_DETACH_FILTER", unix.SetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0))
}

// isDammed reports whether the connection raw, which is borrowed, has the dam.
func isDammed(raw int) bool {
	if n, err := getsockopt(raw, unix.SO_GET_FILTER, nil, 0); err != nil || n != len(dam) {
		return false
	}
	got := make([]unix.SockFilter, len(dam))
	n, err := getsockopt(raw, unix.SO_GET_FILTER, unsafe.Pointer(&got[0]), len(got))
	return err == nil && n == len(dam) && slices.Equal(got, dam)
}

// filtered reports whether the connection raw, which is borrowed, has a filter. Where that cannot be told, it says so.
func filtered(raw int) bool {
	n, err := getsockopt(raw, unix.SO_GET_FILTER, nil, 0)
	return err != nil || n > 0
}

// dropped is how many packets of the connection raw, which is borrowed, the kernel has dropped on this end, as a filter has it do; see SO_MEMINFO
// in linux/sock_diag.h.
func dropped(raw int) uint32 {
	const drops = 8
	var info [drops + 1]uint32
	if n, err := getsockopt(raw, unix.SO_MEMINFO, unsafe.Pointer(&info), int(unsafe.Sizeof(info))); err != nil || n < int(unsafe.Sizeof(info)) {
		return 0
	}
	return info[drops]
}

// getsockopt asks for what x/sys/unix has no function for. The length is in bytes, but for SO_GET_FILTER in instructions; it returns the one that the
// kernel tells.
func getsockopt(raw, option int, value unsafe.Pointer, length int) (int, error) {
	n := uint32(length)
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(raw), unix.SOL_SOCKET, uintptr(option), uintptr(value), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return 0, os.NewSyscallError("getsockopt", errno)
	}
	return int(n), nil
}
