package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// info is what the process was given, as it was when it started.
type info struct {
	Version      string
	PID          int
	PPID         int
	Session      int
	ProcessGroup int
	UID, GID     int
	Umask        int
	Directory    string
	Arguments    []string
	Environment  map[string]string
	// Descriptors maps each open one to what it is, as /proc/self/fd has it.
	Descriptors map[int]string
	// NonBlocking are the descriptors whose file description has O_NONBLOCK.
	NonBlocking []int
	// BlockedSignals and IgnoredSignals are the masks of blocked and ignored signals, as /proc/self/status has them; the language's own start-up does not
	// change these two.
	BlockedSignals, IgnoredSignals string
}

func observe() info {
	i := info{
		PID: os.Getpid(), PPID: os.Getppid(), ProcessGroup: unix.Getpgrp(), UID: os.Getuid(), GID: os.Getgid(),
		Arguments: os.Args, Environment: map[string]string{}, Descriptors: map[int]string{},
	}
	i.Session, _ = unix.Getsid(0)
	i.Umask = unix.Umask(0)
	unix.Umask(i.Umask)
	i.Directory, _ = os.Getwd()
	for _, e := range os.Environ() {
		key, value, _ := strings.Cut(e, "=")
		i.Environment[key] = value
	}
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// The one that the directory itself was read with is gone again. The runtime's own are made with close-on-exec, which
		// nothing has that was inherited.
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		i.Descriptors[fd], _ = os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if status, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil && status&unix.O_NONBLOCK != 0 {
			i.NonBlocking = append(i.NonBlocking, fd)
		}
	}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "SigBlk":
			i.BlockedSignals = strings.TrimSpace(value)
		case "SigIgn":
			i.IgnoredSignals = strings.TrimSpace(value)
		}
	}
	return i
}
