package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func upgradeCommand() *cobra.Command {
	var to target
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Replace the supervisor itself, with the service untouched",
		Long: `Has the supervisor start the program that is on disk now in its own place, hand it the sockets and the
generations, and end. The service goes on: no process of it is signalled or started, and no connection is
lost. If the new program does not start, does not get ready in time, or cannot read what this one has
written down, the old one goes on, and the command tells why. SIGUSR2 does the same.

Install a new version of zddsupervisor beside the old one and rename it over it, as package managers do.

Exit status: 0 another supervisor has the service; 1 it could not be replaced, and nothing has changed;
2 wrong usage; 3 no supervisor was reached.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := to.client()
			if err != nil {
				return err
			}
			s, err := client.Upgrade(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "process %d has taken over from process %d\n", s.PID, s.Was)
			return nil
		},
	}
	to.addFlags(cmd)
	return cmd
}
