package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
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
		source := newSource(path, cmd.Flags(), args)
		// The supervisor will find these two in its environment, made by the unit.
		given := map[string]string{"RUNTIME_DIRECTORY": "/run/of-the-unit", "STATE_DIRECTORY": "/var/lib/of-the-unit"}
		source.Getenv = func(name string) string {
			if v, ok := given[name]; ok {
				return v
			}
			return os.Getenv(name)
		}
		cfg, err := source.Load()
		if err != nil {
			return usageError{err}
		}
		if cfg.RuntimeDirectory != given["RUNTIME_DIRECTORY"] || cfg.StateDirectory != given["STATE_DIRECTORY"] {
			return usageError{errors.New("runtime-directory and state-directory are made by the unit, as zddsupervisor/NAME; leave them out")}
		}
		program, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program's own path: %w", err)
		}
		unit := systemd.Unit{
			Name: cfg.Name, Binary: program,
			CheckTimeout: cfg.Check.Timeout, ReadyTimeout: cfg.Ready.Timeout, Probing: probing(cfg) + hooking(cfg.Hooks), Canary: sharing(cfg.Handoff),
			SettleMax: cfg.Settle.Max, Soak: cfg.Handoff.Soak, DrainTimeout: cfg.Drain.Timeout,
			// A seat for each of two generations, and what each says.
			Descriptors: fdpass.MaxSeats*len(cfg.Sockets) + cfg.Drain.Generations + 2,
			Portable:    portable,
		}
		alone := path != "" && len(args) == 0 // the file says everything
		cmd.Flags().Visit(func(f *pflag.Flag) { alone = alone && (f.Name == "config" || f.Name == "portable") })
		if alone {
			unit.Config = source.Absolute(path)
		} else {
			unit.Run = commandLine(source, cmd.Flags(), cfg, args)
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

// probing is how long the probes may hold a handoff up: those before clients, and one that has begun just before the end
// of each step of the canary and of the soak.
func probing(cfg *config.Config) time.Duration {
	if cfg.Probe.Path == "" {
		return 0
	}
	return time.Duration(cfg.Probe.Count+len(cfg.Handoff.Canary)+1) * cfg.Probe.Timeout
}

// hooking is how long hooks may hold up whoever waits for a handoff.
func hooking(h config.Hooks) (sum time.Duration) {
	for _, command := range [][]string{h.BeforeCutover, h.AfterLive} {
		if len(command) > 0 {
			sum += h.Timeout
		}
	}
	return sum
}

// sharing is how long the canary takes.
func sharing(h config.Handoff) (sum time.Duration) {
	for _, step := range h.Canary {
		sum += step.Time
	}
	return sum
}

// commandLine is what has to follow "run", in whatever directory, to say what was said here.
func commandLine(source *config.Source, flags *pflag.FlagSet, cfg *config.Config, args []string) []string {
	line := []string{"--name=" + cfg.Name}
	if source.Path != "" {
		line = append(line, "--config="+source.Absolute(source.Path))
	} else if !flags.Changed("directory") {
		line = append(line, "--directory="+cfg.Directory)
	}
	kinds := make(map[string]config.Kind)
	for _, key := range config.Keys() {
		kinds[key.Flag()] = key.Kind
	}
	flags.Visit(func(f *pflag.Flag) {
		if f.Name == "portable" || f.Name == "name" || f.Name == "config" {
			return
		}
		values := []string{f.Value.String()}
		if v, ok := f.Value.(pflag.SliceValue); ok {
			values = v.GetSlice()
		}
		for _, value := range values {
			if kind := kinds[f.Name]; kind == config.Path || kind == config.PathList {
				optional := strings.HasPrefix(value, "-")
				if value = source.Absolute(strings.TrimPrefix(value, "-")); optional {
					value = "-" + value
				}
			}
			line = append(line, "--"+f.Name+"="+value)
		}
	})
	if len(args) > 0 {
		line = append(append(line, "--"), args...)
	}
	return line
}
