package main

import (
	"os"
	"os/signal"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// awaitTerm returns a channel that is closed when SIGTERM has come.
func awaitTerm(o options) <-chan struct{} {
	terminated := make(chan struct{})
	if o.ignoreTerm {
		signal.Ignore(unix.SIGTERM)
		return terminated
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGTERM)
	go func() {
		<-signals
		close(terminated)
	}()
	return terminated
}

// endAfter ends the process at the times that the options say, whatever it does by then.
func endAfter(o options) {
	if o.exitAfter == 0 {
		os.Exit(o.exitStatus)
	}
	if o.crashAfter == 0 {
		crash(o.crashSignal)
	}
	if o.exitAfter > 0 {
		time.AfterFunc(o.exitAfter, func() { os.Exit(o.exitStatus) })
	}
	if o.crashAfter > 0 {
		time.AfterFunc(o.crashAfter, func() { crash(o.crashSignal) })
	}
}

// crash ends the process by a signal as it ends a program in C: without the handlers of the Go runtime, which would turn it into an exit
// with a stack trace.
func crash(sig int) {
	// struct sigaction of the kernel: handler (SIG_DFL), flags, restorer, mask.
	var action [4]uint64
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	_ = unix.Kill(os.Getpid(), unix.Signal(sig))
	select {}
}
