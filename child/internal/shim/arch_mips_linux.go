//go:build mips || mipsle || mips64 || mips64le

package shim

// What rt_sigprocmask(2) takes.
const (
	sigsetSize = 16
	sigSetMask = 3
)
