package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

func abortCommand() *cobra.Command {
	var to target
	cmd := &cobra.Command{
		Use:   "abort",
		Short: "Give up the handoff that is under way",
		Long: `Gives up the handoff that is under way, at whatever step it is: all new connections go to the old
version, and the new one is told to stop. The reload that has asked for the handoff fails. The command
returns when that is done. Once the old version was told to stop there is no way back by abort.

Exit status: 0 done; 1 no handoff is under way, or there is no version to go back to; 2 wrong usage;
3 no supervisor was reached.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := to.client()
			if err != nil {
				return err
			}
			r, err := client.Abort(cmd.Context())
			if err != nil {
				return err
			}
			if r.Outcome != upgrade.OutcomeFailed { // the machine does not let that happen
				return errors.New("the handoff was over already")
			}
			fmt.Fprintf(cmd.OutOrStdout(), "handoff %d was given up at step %s; generation %d%s serves on\n", r.Handoff, r.Phase, r.From, inParentheses(r.FromRelease))
			return nil
		},
	}
	to.addFlags(cmd)
	return cmd
}
