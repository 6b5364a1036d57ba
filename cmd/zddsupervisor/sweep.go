package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/child"
)

func sweepCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "End what a dead supervisor has left in its unit (for ExecStopPost=)",
		Long: `Kills the processes that a supervisor which is gone has left behind in its systemd unit, so that
the next one finds its sockets free. It is run by the unit, as ExecStopPost=, and does nothing
outside of a unit.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
			defer cancel()
			killed, err := child.Sweep(ctx)
			if killed > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "killed %d processes of %s that its supervisor has left\n", killed, name)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", "the service", "the supervisor's name, for the message")
	return cmd
}
