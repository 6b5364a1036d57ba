package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/suggest"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// Exit statuses, the same for every command.
const (
	exitDone       = 0
	exitFailed     = 1 // the handoff failed and has changed nothing; or the command could not do its work, or there was none
	exitUsage      = 2 // wrong usage or configuration; nothing was touched
	exitNotRunning = 3 // no supervisor was reached

	exitInconclusive = 4 // the drill could not have shown a loss
	exitLost         = 5 // the drill saw requests that were lost or masked
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

Exit status: 0 done; 1 not done, and nothing has changed: the handoff failed and the old version still
serves, there was nothing to do (promote, abort), or the supervisor is stopping; 2 wrong usage or
configuration; 3 no supervisor was reached, or it refuses this user; 4 and 5 see drill.`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(
		runCommand(), reloadCommand(), deployCommand(), rollbackCommand(), promoteCommand(), abortCommand(),
		statusCommand(), historyCommand(), upgradeCommand(),
		unitCommand(), presetCommand(), doctorCommand(), sweepCommand(),
		drillCommand(), demoCommand(), demoServiceCommand(),
		completionCommand(), manualCommand(),
	)
	for _, c := range root.Commands() {
		completeFlags(c)
	}
	if err := knownCommand(root, args); err != nil {
		return report(err, stderr)
	}
	return report(root.ExecuteContext(ctx), stderr)
}

// knownCommand refuses a word that is no command before its flags are looked at.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return nil
	}
	names := []string{"help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}
	for _, c := range root.Commands() {
		names = append(names, c.Name())
	}
	if slices.Contains(names, args[0]) {
		return nil
	}
	return usageError{fmt.Errorf("there is no command %q%s; see zddsupervisor --help", args[0], suggest.DidYouMean(args[0], names))}
}

// report writes an error for the user and returns the exit status that goes with it.
func report(err error, stderr io.Writer) int {
	if err == nil {
		return exitDone
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintln(stderr, "zddsupervisor: "+fit(strings.TrimRight(line, "\n"), 0))
	}
	var failed *upgrade.HandoffError
	var usage usageError
	var verdict errVerdict
	switch {
	case errors.As(err, &verdict):
		return verdict.status()
	case errors.As(err, &failed), errors.Is(err, upgrade.ErrStopping):
		return exitFailed
	case errors.Is(err, control.ErrNotRunning), errors.Is(err, control.ErrRefused):
		return exitNotRunning
	case errors.As(err, &usage), errors.Is(err, control.ErrAmbiguous):
		return exitUsage
	}
	return exitFailed
}

// packaged is the version of the package that the program is in. The linker sets it, see packaging/deb.sh.
var packaged string

// version is the package's version, or the module's, or the commit that the program was built from.
func version() string {
	if packaged != "" {
		return packaged
	}
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
