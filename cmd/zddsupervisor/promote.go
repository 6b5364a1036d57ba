package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func promoteCommand() *cobra.Command {
	var to target
	cmd := &cobra.Command{
		Use:   "promote",
		Short: "End the canary or the soak of a handoff now",
		Long: `Ends the canary or the soak that is under way, as if its time were over: after a canary all new
connections go to the new version, after a soak the old one is told to stop. The command returns
at once; the reload that has asked for the handoff tells how it ends.

Exit status: 0 done; 1 no canary and no soak is under way; 2 wrong usage; 3 no supervisor was reached.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := to.client()
			if err != nil {
				return err
			}
			r, err := client.Promote(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "handoff %d to generation %d%s is not held up any longer at step %s\n", r.Handoff, r.To, inParentheses(r.ToRelease), r.Phase)
			return nil
		},
	}
	to.addFlags(cmd)
	return cmd
}
