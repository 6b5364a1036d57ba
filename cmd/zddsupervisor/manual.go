package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/internal/manual"
)

// manualCommand writes the manual pages, for whoever makes a package.
func manualCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "manual DIR",
		Short:  "Write the manual pages into a directory",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, page := range manual.Pages(cmd.Root(), version()) {
				if err := os.WriteFile(filepath.Join(args[0], page.Name), []byte(page.Text), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
