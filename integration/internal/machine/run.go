package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Result is what a command inside has said and how it ended.
type Result struct {
	Stdout, Stderr string
	Status         int // exit status; -1 if a signal ended it
}

// String is the result for the log of a test.
func (r Result) String() string {
	return fmt.Sprintf("exit status %d\nstdout: %s\nstderr: %s", r.Status, strings.TrimSpace(r.Stdout), strings.TrimSpace(r.Stderr))
}

// Run runs a command inside and blocks until it has ended, or until ctx ends, which kills it. The error is non-nil only if it could not be run
// to its end: see Status for the rest.
func (m *Machine) Run(ctx context.Context, argv ...string) (Result, error) {
	var stdout, stderr bytes.Buffer
	cmd := m.Command(ctx, argv...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := Result{Stdout: stdout.String(), Stderr: stderr.String()}
	if ctx.Err() != nil {
		return r, fmt.Errorf("run %s: %w\n%s", strings.Join(argv, " "), ctx.Err(), r)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		r.Status, err = exit.ExitCode(), nil
	}
	return r, err
}

// Output runs a command inside as [Machine.Run] does and returns its standard output without surrounding blanks. Any exit status but 0 is an error.
func (m *Machine) Output(ctx context.Context, argv ...string) (string, error) {
	r, err := m.Run(ctx, argv...)
	if err == nil && r.Status != 0 {
		err = fmt.Errorf("run %s: %s", strings.Join(argv, " "), r)
	}
	return strings.TrimSpace(r.Stdout), err
}

// Command returns a command that will run inside, in all of the machine's namespaces, for the caller to start and wait for.
func (m *Machine) Command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := m.nsenter(ctx, []string{"--mount", "--uts", "--ipc", "--cgroup", "--net", "--pid"}, argv)
	cmd.Env = []string{"PATH=" + path, "LANG=C.UTF-8", "SYSTEMD_COLORS=0", "SYSTEMD_PAGER=cat"}
	return cmd
}

// NetworkCommand returns a command of the host that will run in the machine's network, with the host's file system and this process's environment.
func (m *Machine) NetworkCommand(ctx context.Context, argv ...string) *exec.Cmd {
	return m.nsenter(ctx, []string{"--net"}, argv)
}

func (m *Machine) nsenter(ctx context.Context, namespaces, argv []string) *exec.Cmd {
	args := append([]string{"--target", strconv.Itoa(m.Pid())}, namespaces...)
	args = append(append(args, "--"), argv...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	// nsenter waits for a child in the other pid namespace, which must not survive it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}
