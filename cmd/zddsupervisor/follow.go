package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// follow asks for a handoff and shows it until its end. Ctrl-C ends the command, and not the handoff.
func follow(cmd *cobra.Command, client *control.Client, ask func(ctx context.Context, step func(upgrade.Progress)) (*upgrade.Record, error)) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), unix.SIGINT)
	defer stop()
	p := newProgress(cmd.OutOrStdout())
	defer p.end()
	record, err := ask(ctx, p.step)
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		p.end()
		fmt.Fprintln(cmd.ErrOrStderr(), goesOn(p.running()))
		stop()
		return endOf(unix.SIGINT)
	}
	if err != nil {
		return err
	}
	p.done(record)
	p.drains(cmd.Context(), client, record)
	return nil
}

// endOf ends the process of a signal that nobody takes any more, as if it had never been taken. It does not return but for an error.
func endOf(sig unix.Signal) error {
	if err := unix.Kill(os.Getpid(), sig); err != nil {
		return os.NewSyscallError("kill", err)
	}
	time.Sleep(time.Second) // another thread may be the one that gets it
	return fmt.Errorf("still there after %s", unix.SignalName(sig))
}

// goesOn says what becomes of a handoff whose watcher has left at a step.
func goesOn(handoff int, step string) string {
	what := "the handoff goes on"
	if step != "" {
		what = fmt.Sprintf("handoff %d goes on, and is at step %s", handoff, step)
	}
	return "zddsupervisor: " + what + "; zddsupervisor status --watch shows it, and zddsupervisor abort gives it up"
}
