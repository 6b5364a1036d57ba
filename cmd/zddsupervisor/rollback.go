package main

import (
	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/internal/releases"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

func rollbackCommand() *cobra.Command {
	var to target
	cmd := &cobra.Command{
		Use:   "rollback [flags] [RELEASE]",
		Short: "Hand off to a release that was live before",
		Long: `Hands off to an earlier release as deploy does: with RELEASE to that one, without to the last good one.
That is the newest in the history, other than the one that is live, that was live and was not given up: it did not
end by itself within handoff.probation, and nobody has rolled back from it, since it was made live last.

Exit status: 0 the release is live; 1 it was refused, or the handoff failed, with the reason: the old version
still serves; 2 wrong usage; 3 no supervisor was reached.`,
		Args: oneRelease,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
				if err := releases.CheckName(name); err != nil {
					return usageError{err}
				}
			}
			client, err := to.client()
			if err != nil {
				return err
			}
			return deploy(cmd, client, upgrade.KindRollback, name, false)
		},
	}
	to.addFlags(cmd)
	return cmd
}
