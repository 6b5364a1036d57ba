package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// unitFlags is what the user says about the unit, beside the configuration.
type unitFlags struct {
	config                             string
	portable, harden, template         bool
	install, force, dryRun, socketUnit bool
}

// unitOnly are the flags of unit that are none of run's.
func unitOnly() []string {
	return []string{"portable", "harden", "template", "install", "force", "dry-run", "socket-unit"}
}

func unitCommand() *cobra.Command {
	var f unitFlags
	cmd := &cobra.Command{
		Use:   "unit [--config FILE] [flags] [-- COMMAND [ARG...]]",
		Short: "Print the systemd unit for a service, or install it",
		Long: `Prints the unit that runs the supervisor with this configuration file or this command line,
with time limits that follow from the configuration's. Type=notify-reload needs systemd 253;
--portable prints a unit for older ones.

With --install it writes /etc/systemd/system/NAME.service and, unless --config names one, a
configuration file for the command line, /etc/zddsupervisor/NAME.toml, and says what to do next. It starts
nothing. A file that is there and says something else is not replaced without --force. With --socket-unit
systemd opens the sockets: a .socket unit for each is written too. With --template it is
zddsupervisor@.service, for any number of services, each with its file in /etc/zddsupervisor.

Exit status: 0 done; 1 a file could not be written, or differs from the one that is there; 2 wrong usage
or configuration.`,
		Example: `  zddsupervisor unit --config /etc/zddsupervisor/app.toml > /etc/systemd/system/app.service
  zddsupervisor unit --name app --listen :8080 -- /srv/app/bin/app
  zddsupervisor unit --install --name app --listen :8080 -- /srv/app/bin/app`,
	}
	cmd.Flags().StringVar(&f.config, "config", "", "the configuration file")
	cmd.Flags().BoolVar(&f.portable, "portable", false, "for systemd before version 253: Type=notify")
	cmd.Flags().BoolVar(&f.harden, "harden", false, "take away from supervisor and service what most network services do not need")
	cmd.Flags().BoolVar(&f.template, "template", false, "zddsupervisor@.service, which reads /etc/zddsupervisor/INSTANCE.toml")
	cmd.Flags().BoolVar(&f.install, "install", false, "write the unit and its configuration file instead of printing the unit")
	cmd.Flags().BoolVar(&f.force, "force", false, "with --install: replace files that say something else")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "with --install: print the files instead of writing them")
	cmd.Flags().BoolVar(&f.socketUnit, "socket-unit", false, "with --install: have systemd open the sockets, by .socket units")
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if f.template {
			if cmd.Flags().Changed("config") || len(args) > 0 {
				return usageError{errors.New("--template is for any service: leave its configuration out")}
			}
			return f.unitTemplate(out)
		}
		source := newSource(f.config, cmd.Flags(), args)
		cfg, err := loadForUnit(source)
		if err != nil {
			return usageError{err}
		}
		if f.install {
			return f.installService(out, source, cfg)
		}
		unit, err := f.describe(cfg)
		if err != nil {
			return err
		}
		if fileAlone(source) {
			unit.Config = source.Absolute(f.config)
		} else {
			unit.Run = commandLine(source, cmd.Flags(), cfg, args)
		}
		return printUnit(out, unit)
	}
	return cmd
}

func (f *unitFlags) check() error {
	switch {
	case !f.install && (f.force || f.dryRun || f.socketUnit):
		return usageError{errors.New("--force, --dry-run and --socket-unit go with --install")}
	case f.socketUnit && (f.config != "" || f.template):
		return usageError{errors.New("--socket-unit writes a configuration file: give its settings as flags instead of --config or --template")}
	}
	return nil
}

func printUnit(out io.Writer, unit systemd.Unit) error {
	text, err := unit.Text()
	if err != nil {
		return usageError{err}
	}
	_, err = fmt.Fprint(out, text)
	return err
}

// loadForUnit loads a configuration as the supervisor will in its unit, which makes its two directories.
func loadForUnit(source *config.Source) (*config.Config, error) {
	given := map[string]string{"RUNTIME_DIRECTORY": "/run/of-the-unit", "STATE_DIRECTORY": "/var/lib/of-the-unit"}
	source.Getenv = func(name string) string {
		if v, ok := given[name]; ok {
			return v
		}
		return os.Getenv(name)
	}
	cfg, err := source.Load()
	if err != nil {
		return nil, err
	}
	if cfg.RuntimeDirectory != given["RUNTIME_DIRECTORY"] || cfg.StateDirectory != given["STATE_DIRECTORY"] {
		return nil, errors.New("runtime-directory and state-directory are made by the unit, as zddsupervisor/NAME; leave them out")
	}
	return cfg, nil
}

// describe returns the unit of a configuration, without where that is.
func (f *unitFlags) describe(cfg *config.Config) (systemd.Unit, error) {
	program, err := ownPath()
	if err != nil {
		return systemd.Unit{}, err
	}
	unit := unitOf(cfg)
	unit.Binary, unit.Portable = program, f.portable
	if f.harden {
		unit.Sandbox = new(systemd.Sandbox)
		for _, p := range cfg.Privileges() {
			unit.Sandbox.Capabilities = append(unit.Sandbox.Capabilities, p.Capability)
		}
	}
	return unit, nil
}

// ownPath returns where this program is, as it was called: a symbolic link by which versions are changed stays one.
func ownPath() (string, error) {
	file, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program's own path: %w", err)
	}
	called, err := exec.LookPath(os.Args[0])
	if err != nil {
		return file, nil
	}
	if called, err = filepath.Abs(called); err != nil {
		return file, nil
	}
	// What it was called need not be true.
	if is, err := filepath.EvalSymlinks(called); err != nil || is != file {
		return file, nil
	}
	return called, nil
}

// unitOf returns what follows from a configuration.
func unitOf(cfg *config.Config) systemd.Unit {
	return systemd.Unit{
		Name:         cfg.Name,
		CheckTimeout: cfg.Check.Timeout, ReadyTimeout: cfg.Ready.Timeout, Probing: probing(cfg) + hooking(cfg.Hooks), Canary: sharing(cfg.Handoff),
		SettleMax: cfg.Settle.Max, Soak: cfg.Handoff.Soak, DrainTimeout: cfg.Drain.Timeout,
		// A seat for each of two generations, and what each says.
		Descriptors: fdpass.MaxSeats*len(cfg.Sockets) + cfg.Drain.Generations + 2,
	}
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

// fileAlone reports whether the configuration file says everything.
func fileAlone(source *config.Source) bool {
	alone := source.Path != "" && len(source.Args) == 0
	source.Flags.Visit(func(f *pflag.Flag) { alone = alone && (f.Name == "config" || slices.Contains(unitOnly(), f.Name)) })
	return alone
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
		if f.Name == "name" || f.Name == "config" || slices.Contains(unitOnly(), f.Name) {
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
