package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// Exit statuses, the same for every command.
const (
	exitDone       = 0
	exitFailed     = 1 // the handoff failed, and the old version still serves; or the command could not do its work
	exitUsage      = 2 // wrong usage or configuration; nothing was touched
	exitNotRunning = 3 // no supervisor was reached
)

// usageError is what the user got wrong: it ends with exitUsage.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// noArguments is for commands that take flags alone.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no argument, but got %q; see %[1]s --help", cmd.CommandPath(), args[0])}
	}
	return nil
}

// run runs one command line and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:   "zddsupervisor",
		Short: "Deploy new versions of a service without losing a connection",
		Long: `zddsupervisor owns the listening sockets of a service and outlives every version of it.
On a reload it starts the new version beside the old one, hands it the sockets, waits
until it says that it is ready, and only then stops the old one. A bad version changes nothing.

Exit status: 0 done; 1 the handoff failed and the old version still serves;
2 wrong usage or configuration; 3 no supervisor reached.`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("there is no command %q; see zddsupervisor --help", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		runCommand(), reloadCommand(), statusCommand(), unitCommand(), sweepCommand(),
		demoCommand(), demoServiceCommand(),
	)
	return report(root.ExecuteContext(ctx), stderr)
}

// report writes an error for the user and returns the exit status that goes with it.
func report(err error, stderr io.Writer) int {
	if err == nil {
		return exitDone
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(stderr, "zddsupervisor: "+strings.TrimRight(line, "\n"))
	}
	var failed *upgrade.HandoffError
	var usage usageError
	switch {
	case errors.As(err, &failed):
		return exitFailed
	case errors.Is(err, control.ErrNotRunning):
		return exitNotRunning
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}

// version is the module's version, or the commit that the program was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "development"
}
