package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// outputGrace is how long the output of a ready command may come after its end.
// Only one that leaves processes behind makes use of it.
const outputGrace = 50 * time.Millisecond

// ExecReady is ready when a command exits with status 0. It is run again and again,
// with the environment, directory, user and limits of the process itself, but
// without its sockets and NOTIFY_SOCKET.
type ExecReady struct {
	Reaper   *Reaper
	Path     string
	Args     []string      // the name first; nil means Path alone
	Interval time.Duration // from the end of a run to the next; 0 means one second

	command Command
}

// Prepare copies from the command what the ready command has in common with it.
func (w *ExecReady) Prepare(c *Command) error {
	w.command = Command{
		Path:       w.Path,
		Args:       w.Args,
		Env:        c.Env,
		Dir:        c.Dir,
		Credential: c.Credential,
		Limits:     c.Limits,
		Umask:      c.Umask,
	}
	return nil
}

// Wait is as Waiter has it. A command that cannot be run at all is an *ExecError.
func (w *ExecReady) Wait(ctx context.Context, p *Process) error {
	since := time.Now()
	runs, cancel := untilEnded(ctx, p)
	defer cancel()

	interval := w.Interval
	if interval == 0 {
		interval = time.Second
	}
	last := "it is still running"
	for {
		exit, output, err := w.run(runs)
		var refused *ExecError
		switch {
		case hasEnded(p):
			return exited(p)
		case err == nil && exit.Success():
			return nil
		case err == nil:
			last = exit.String() + output
		case ctx.Err() != nil:
			last += output
		case errors.As(err, &refused) && refused.Stage != StageFork:
			return fmt.Errorf("the ready command: %w", err)
		default:
			last = err.Error()
		}
		timer := time.NewTimer(interval)
		select {
		case <-timer.C:
		case <-runs.Done():
			timer.Stop()
		}
		switch {
		case hasEnded(p):
			return exited(p)
		case ctx.Err() != nil:
			return waitEnded(ctx, p, "exec", since, fmt.Sprintf("the command %s (ready.by = \"exec\") has not succeeded: %s", w.Path, last))
		}
	}
}

// String says what it waits for.
func (w *ExecReady) String() string { return "success of the ready command " + w.Path }

// Close does nothing.
func (w *ExecReady) Close() error { return nil }

// run runs the command once. The output is its last line, after ": ", or "".
func (w *ExecReady) run(ctx context.Context) (exit Exit, output string, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return Exit{}, "", os.NewSyscallError("pipe2", err)
	}
	write := fdpass.NewFD(ends[1])
	defer write.Close()
	if err := unix.SetNonblock(ends[0], true); err != nil {
		unix.Close(ends[0])
		return Exit{}, "", os.NewSyscallError("fcntl", err)
	}
	read := os.NewFile(uintptr(ends[0]), "output")
	defer read.Close()
	// All is read, whatever the amount, so that the command is never stopped by it.
	tail := make(chan []byte, 1)
	go func() { tail <- readTail(read) }()

	c := w.command
	c.Stdout, c.Stderr = write, write
	exit, err = w.Reaper.Run(ctx, c)
	write.Close()
	_ = read.SetReadDeadline(time.Now().Add(outputGrace))
	if line := lastLine(<-tail); line != "" {
		output = ": " + line
	}
	return exit, output, err
}

// tailSize is how much of the output is kept.
const tailSize = 512

// readTail returns the end of what comes until the stream ends or a deadline.
func readTail(r *os.File) []byte {
	var tail []byte
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		tail = append(tail, buf[:n]...)
		tail = tail[max(0, len(tail)-tailSize):]
		if err != nil {
			return tail
		}
	}
}

// lastLine is the last line that is not empty, fit to be shown.
func lastLine(b []byte) string {
	line := bytes.TrimSpace(b)
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(line), "?"))
}
