package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/doctor"
	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// errIll ends doctor where something will not work. What that is was said.
var errIll = errors.New("something will not work; see above")

func doctorCommand() *cobra.Command {
	var name, path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what would not work here, and how to make it right",
		Long: `Looks at the kernel, by trying what the supervisor will need, and at systemd; with --name at the unit of
that name too, as it is in force, and at the configuration that its command line names; with --config at a
configuration file, and at the unit of the name in it. It changes nothing, and needs neither root nor a
supervisor that runs. What it could not look at, it says.

Exit status: 0 nothing was found that will not work; 1 something will not work; 2 wrong usage.`,
		Example: `  zddsupervisor doctor
  zddsupervisor doctor --name app
  zddsupervisor doctor --config /etc/zddsupervisor/app.toml --json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			subject, err := doctorSubject(cmd.Context(), name, path)
			if err != nil {
				return err
			}
			subject.Uncarried = uncarried(cmd.Context(), subject.Source)
			findings := doctor.Examine(cmd.Context(), subject)
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				err = e.Encode(findings)
			} else {
				err = doctor.WriteText(cmd.OutOrStdout(), findings)
			}
			if err == nil && doctor.Failed(findings) {
				err = errIll
			}
			return err
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the supervisor's name: its unit, and the configuration that this names")
	cmd.Flags().StringVar(&path, "config", "", "a configuration file, and the unit of the name in it")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything, as one JSON array")
	return cmd
}

// doctorSubject finds what is to be looked at.
func doctorSubject(ctx context.Context, name, path string) (doctor.Subject, error) {
	subject := doctor.Subject{Limits: unitOf, Prepare: commandsOf}
	switch {
	case name != "" && path != "":
		return subject, usageError{errors.New("--name and --config both say what to look at; give one of them")}
	case path != "":
		subject.Source = newSource(path, nil, nil)
		inUnit(subject.Source, "NAME")
		// Where it cannot be loaded, its problems are what is found.
		if cfg, err := subject.Source.Load(); err == nil {
			inUnit(subject.Source, cfg.Name)
			if unit, err := doctor.FindUnit(ctx, cfg.Name); err == nil {
				subject.Unit = unit
			}
		}
	case name != "":
		if err := systemd.CheckName(name); err != nil {
			return subject, usageError{err}
		}
		unit, err := doctor.FindUnit(ctx, name)
		if errors.Is(err, doctor.ErrNoUnit) {
			err = usageError{err}
		}
		if err != nil {
			return subject, err
		}
		subject.Unit = unit
		if subject.Source, err = unit.Source(); err != nil {
			return subject, usageError{err}
		}
		inUnit(subject.Source, name)
	}
	return subject, nil
}

// askFor is how long doctor waits for a supervisor that runs.
const askFor = 2 * time.Second

// uncarried asks the supervisor of a configuration, if one runs and this user may ask it, why it carries no connections over.
func uncarried(ctx context.Context, source *config.Source) string {
	if source == nil {
		return ""
	}
	cfg, err := source.Load()
	if err != nil || cfg.Handoff.KeepAlive != config.KeepAliveCarry {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	st, err := control.NewClient(filepath.Join(cfg.RuntimeDirectory, control.SocketName)).Status(ctx)
	if err != nil {
		return ""
	}
	return st.Uncarried
}

// inUnit has a configuration loaded as the unit's supervisor does, which finds its directories in the environment.
func inUnit(source *config.Source, name string) {
	source.Getenv = func(variable string) string {
		switch variable {
		case "RUNTIME_DIRECTORY":
			return "/run/zddsupervisor/" + name
		case "STATE_DIRECTORY":
			return "/var/lib/zddsupervisor/" + name
		}
		return ""
	}
}

// commandsOf returns what a generation is started from, and what is run before it.
func commandsOf(cfg *config.Config) ([]child.Command, error) {
	prepared, err := planner{environ: []string{"PATH=" + unitPath}}.prepare(cfg, 1)
	if err != nil {
		return nil, err
	}
	commands := []child.Command{prepared.Command}
	if prepared.Check != nil {
		commands = append(commands, *prepared.Check)
	}
	return commands, nil
}

// unitPath is the PATH that systemd gives to units.
const unitPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
