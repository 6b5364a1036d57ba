//go:build !386 && !arm

package shim

import "syscall"

const (
	sysSetgroups = syscall.SYS_SETGROUPS
	sysSetresgid = syscall.SYS_SETRESGID
	sysSetresuid = syscall.SYS_SETRESUID
)
