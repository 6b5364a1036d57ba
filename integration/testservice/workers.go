package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// workerEnv says to a process that it is a worker, whose sockets were passed to another one.
const workerEnv = "TESTSERVICE_WORKER"

// lead is the process that serves nothing itself: it starts workers, which share its sockets, gets ready once all of them serve, and
// when it is stopped tells them, and waits for them; or, told so, leaves them behind.
func lead(o options, terminated <-chan struct{}) error {
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil && o.bind == "" { // else each of them binds by itself
		return fmt.Errorf("LISTEN_FDS: %w", err)
	}
	var workers []int
	for range o.workers {
		pid, err := startWorker(n)
		if err != nil {
			return err
		}
		workers = append(workers, pid)
	}
	for i := range n {
		syscall.Close(firstFD + i)
	}
	if err := sayReady(o); err != nil {
		return err
	}
	<-terminated
	if o.outlive {
		return nil
	}
	for _, pid := range workers {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return err
		}
	}
	for _, pid := range workers {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			return err
		}
	}
	return nil
}

// startWorker starts a worker with the first n sockets, and blocks until it serves. The sockets go there untouched, which os/exec
// does not leave them: O_NONBLOCK belongs to the workers before it as well.
func startWorker(n int) (pid int, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	files := []uintptr{0, 1, 2}
	for i := range n {
		files = append(files, uintptr(firstFD+i))
	}
	ready := len(files)
	args := slices.DeleteFunc(slices.Clone(os.Args), func(arg string) bool {
		return strings.HasPrefix(arg, "-workers") || strings.HasPrefix(arg, "-ready-after")
	})
	args = append(args, "-ready-fd="+strconv.Itoa(ready))
	pid, err = syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
		Env:   append(os.Environ(), workerEnv+"=1"),
		Files: append(files, w.Fd()),
	})
	w.Close()
	if err != nil {
		return 0, fmt.Errorf("start a worker: %w", err)
	}
	if _, err := r.Read(make([]byte, 1)); err != nil {
		return 0, fmt.Errorf("a worker did not get ready: %w", err)
	}
	return pid, nil
}
