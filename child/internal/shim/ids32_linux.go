//go:build 386 || arm

package shim

import "syscall"

// The calls without 32 take 16-bit numbers there.
const (
	sysSetgroups = syscall.SYS_SETGROUPS32
	sysSetresgid = syscall.SYS_SETRESGID32
	sysSetresuid = syscall.SYS_SETRESUID32
)
