package main

import (
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// daemonEnv counts how often a process that becomes a daemon has forked.
const daemonEnv = "TESTSERVICE_DAEMON"

// daemonize forks twice, the way daemons leave their parent: the first copy makes a session, the second leaves it. It exits in the
// processes that are left behind and returns in the last.
func daemonize() error {
	stage, _ := strconv.Atoi(os.Getenv(daemonEnv))
	if stage == 2 {
		return nil
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), daemonEnv+"="+strconv.Itoa(stage+1))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	n, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	for i := range n {
		cmd.ExtraFiles = append(cmd.ExtraFiles, os.NewFile(uintptr(firstFD+i), "socket"))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: stage == 0}
	if err := cmd.Start(); err != nil {
		return err
	}
	os.Exit(0)
	return nil
}

// plantTree starts the children.
func plantTree(o options) error {
	for range o.tree {
		if err := startLeaf(o, 1); err != nil {
			return err
		}
	}
	return nil
}

// startLeaf starts a child that has below children below it.
func startLeaf(o options, below int) error {
	cmd := exec.Command("/proc/self/exe", "-leaf", "-tree="+strconv.Itoa(below), "-tree-setsid="+strconv.FormatBool(o.treeSetsid))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: o.treeSetsid}
	return cmd.Start()
}

// beLeaf is a child: it starts its own, and stays whatever happens.
func beLeaf(o options) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	for range o.tree {
		if err := startLeaf(o, 0); err != nil {
			return err
		}
	}
	for { // and not select{}, which a Go program without another goroutine takes for a deadlock
		time.Sleep(time.Hour)
	}
}
