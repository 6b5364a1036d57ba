package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/systemd"
)

func unitCommand() *cobra.Command {
	var path string
	var portable bool
	cmd := &cobra.Command{
		Use:   "unit [--config FILE] [flags] [-- COMMAND [ARG...]]",
		Short: "Print the systemd unit for a service",
		Long: `Prints the unit that runs the supervisor with this configuration file or this command line,
with time limits that follow from the configuration's. Type=notify-reload needs systemd 253;
--portable prints a unit for older ones.`,
		Example: `  zddsupervisor unit --config /etc/zddsupervisor/app.toml > /etc/systemd/system/app.service
  zddsupervisor unit --name app --listen :8080 -- /srv/app/bin/app`,
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration file")
	cmd.Flags().BoolVar(&portable, "portable", false, "for systemd before version 253: Type=notify")
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		source, err := newSource(path, cmd.Flags(), args)
		if err != nil {
			return err
		}
		cfg, err := source.Load()
		if err != nil {
			return usageError{err}
		}
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program's own path: %w", err)
		}
		unit := systemd.Unit{
			Name: cfg.Name, Binary: program,
			CheckTimeout: cfg.Check.Timeout, ReadyTimeout: cfg.Ready.Timeout, SettleMax: settleMax, DrainTimeout: cfg.Drain.Timeout,
			Portable: portable,
		}
		if path != "" {
			if unit.Config, err = filepath.Abs(path); err != nil {
				return err
			}
		} else {
			unit.Run = commandLine(cmd, args)
		}
		text, err := unit.Text()
		if err != nil {
			return usageError{err}
		}
		_, err = fmt.Fprint(cmd.OutOrStdout(), text)
		return err
	}
	return cmd
}

// commandLine is what has to follow "run" to say what was said here.
func commandLine(cmd *cobra.Command, args []string) []string {
	var line []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch v := f.Value.(type) {
		case pflag.SliceValue:
			for _, one := range v.GetSlice() {
				line = append(line, "--"+f.Name+"="+one)
			}
		default:
			if f.Name != "portable" {
				line = append(line, "--"+f.Name+"="+f.Value.String())
			}
		}
	})
	return append(append(line, "--"), args...)
}
