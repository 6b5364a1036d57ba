package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/systemd"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// sweepTimeout is more than killing what is left can take, and less than systemd's limit for ExecStopPost=.
const sweepTimeout = 10 * time.Second

func sweepCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "End what a dead supervisor has left in its unit (for ExecStopPost=)",
		Long: `Kills the processes that a supervisor which is gone has left behind in its systemd unit, and removes
its socket files, if the unit is being stopped. If it is going to be started again, nothing is touched:
the next supervisor takes the service over. It is run by the unit, as ExecStopPost=, and does nothing
outside of a unit.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), sweepTimeout)
			defer cancel()
			return sweep(ctx, name, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&name, "name", "the service", "the supervisor's name, for the message")
	return cmd
}

func sweep(ctx context.Context, name string, out io.Writer) error {
	unit, user, err := child.Unit()
	if unit == "" || err != nil {
		return err
	}
	statePath := filepath.Join(os.Getenv("RUNTIME_DIRECTORY"), stateName)
	saved, savedErr := upgrade.LoadSaved(statePath)
	starts, err := systemd.WillStart(ctx, unit, user, os.Getenv("SERVICE_RESULT"))
	if err != nil {
		// It cannot be told. What the supervisor was doing is the best guess.
		fmt.Fprintf(out, "whether %s is going to be started again is not known: %v\n", unit, err)
		starts = savedErr == nil && saved.HasService() && !saved.Stopping()
	}
	if starts {
		return nil
	}
	killed, err := child.Sweep(ctx)
	if killed > 0 {
		fmt.Fprintf(out, "killed %d processes of %s that its supervisor has left\n", killed, name)
	}
	if err == nil { // else there may be connections
		err = fdpass.RemoveTables(name)
	}
	if saved != nil {
		for _, s := range saved.Files() {
			err = errors.Join(err, fdpass.RemoveFile(s))
		}
	}
	return err
}
