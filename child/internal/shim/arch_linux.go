//go:build !mips && !mipsle && !mips64 && !mips64le

package shim

// What rt_sigprocmask(2) takes.
const (
	sigsetSize = 8
	sigSetMask = 2
)
