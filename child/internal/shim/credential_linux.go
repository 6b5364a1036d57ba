package shim

import (
	"syscall"
	"unsafe"
)

// setCredential becomes another user with the raw system calls, which change the
// calling thread alone. That is enough, since this thread is the one that calls
// exec, and it spares stopping all threads as the syscall package does. Leaving
// uid 0 takes all capabilities away, see capabilities(7).
func setCredential(s *Spec) (uint32, error) {
	c := s.Credential
	if c == nil || already(c) {
		return 0, nil
	}
	var list unsafe.Pointer
	if len(c.Groups) > 0 {
		list = unsafe.Pointer(&c.Groups[0])
	}
	if _, _, e := syscall.RawSyscall(sysSetgroups, uintptr(len(c.Groups)), uintptr(list), 0); e != 0 {
		return 0, e
	}
	gid, uid := uintptr(c.GID), uintptr(c.UID)
	if _, _, e := syscall.RawSyscall(sysSetresgid, gid, gid, gid); e != 0 {
		return 0, e
	}
	if _, _, e := syscall.RawSyscall(sysSetresuid, uid, uid, uid); e != 0 {
		return 0, e
	}
	return 0, nil
}

// already says whether the process is what is asked for, so that a supervisor
// without privileges may name its own user.
func already(c *Credential) bool {
	if syscall.Getuid() != int(c.UID) || syscall.Geteuid() != int(c.UID) ||
		syscall.Getgid() != int(c.GID) || syscall.Getegid() != int(c.GID) {
		return false
	}
	groups, err := syscall.Getgroups()
	if err != nil {
		return false
	}
	have := make([]uint32, len(groups))
	for i, g := range groups {
		have[i] = uint32(g)
	}
	return subset(c.Groups, have, c.GID) && subset(have, c.Groups, c.GID)
}

// subset says whether all of a but gid are in b. The group itself is often listed
// among the supplementary ones too, and says nothing there.
func subset(a, b []uint32, gid uint32) bool {
	for _, want := range a {
		found := want == gid
		for _, have := range b {
			found = found || have == want
		}
		if !found {
			return false
		}
	}
	return true
}
