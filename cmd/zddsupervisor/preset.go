package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
)

func presetCommand() *cobra.Command {
	var names []string
	for _, p := range config.Presets() {
		names = append(names, p.Name)
	}
	return &cobra.Command{
		Use:   "preset [NAME]",
		Short: "Print the values that a preset sets, or which presets there are",
		Long: `Prints a preset as a configuration file with comments: how one kind of service is told of its sockets, how
it shows that it is ready, and how it is stopped without losing anything.

A preset is used with preset = "NAME" in the configuration, or --preset NAME. It sets nothing but keys of the
configuration, and whatever key is set there wins.`,
		Example: `  zddsupervisor preset
  zddsupervisor preset nginx
  zddsupervisor run --preset nginx --listen 127.0.0.1:8080 -- nginx -g 'pid /run/nginx-{generation}.pid;'`,
		ValidArgs: names,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("zddsupervisor preset takes one name, but got %q too; see zddsupervisor preset --help", args[1])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listPresets(cmd.OutOrStdout())
			}
			p, err := config.FindPreset(args[0])
			if err != nil {
				return usageError{err}
			}
			_, err = io.WriteString(cmd.OutOrStdout(), p.Text)
			return err
		},
	}
}

func listPresets(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, p := range config.Presets() {
		fmt.Fprintf(w, "%s\t%s\n", p.Name, p.Doc)
	}
	return w.Flush()
}
