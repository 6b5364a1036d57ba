package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

func reloadCommand() *cobra.Command {
	var to target
	var noWait bool
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Hand off to a new version, and wait until it is live",
		Long: `Starts the service anew from the configuration as it is now, and hands off to it.
Each step is printed as it ends; on a terminal the one that runs is shown with its time and what it
waits for. Ctrl-C ends the command, and not the handoff. The command returns when the new version is live, or has
failed; the old version drains behind it. If a handoff is under way already, one more follows it,
and this command waits for that one.

Exit status: 0 the new version is live; 1 the handoff failed, with the reason, and has changed nothing:
the old version still serves; 2 wrong usage; 3 no supervisor was reached.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := to.client()
			if err != nil {
				return err
			}
			if noWait {
				return client.Ask(cmd.Context())
			}
			err = follow(cmd, client, func(ctx context.Context, step func(upgrade.Progress)) (*upgrade.Record, error) {
				return client.Reload(ctx, since(), step)
			})
			if errors.Is(err, upgrade.ErrStopping) && fromSystemd() {
				// systemd ends the commands of a unit that it stops by this signal, but the supervisor first. Whichever of the two
				// comes first, the unit was stopped and has not failed: see SuccessExitStatus= in it.
				return unix.Kill(os.Getpid(), unix.SIGTERM)
			}
			return err
		},
	}
	to.addFlags(cmd)
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return as soon as the request was taken")
	return cmd
}

// since is from when on a handoff that reads the configuration is what this command asks for: its start, where it is the
// ExecReload= of a unit, which some versions of systemd run after a reload signal that asks for the same. For anybody else it is
// now, since a process may have been another program before, a script that has changed something meanwhile.
func since() uint64 {
	if fromSystemd() && os.Getenv("MAINPID") != "" { // see Environment variables set by the manager, systemd.exec(5)
		return control.Started()
	}
	return 0
}

// fromSystemd reports whether systemd itself has started this process.
func fromSystemd() bool { return os.Getenv("SYSTEMD_EXEC_PID") == strconv.Itoa(os.Getpid()) }

func inParentheses(s string) string {
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}

// round shortens a duration to what a person wants to know.
func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(time.Second)
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
