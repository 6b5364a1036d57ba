package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/history"
	"github.com/zddsupervisor/zddsupervisor/internal/logging"
	"github.com/zddsupervisor/zddsupervisor/systemd"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

func runCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "run [flags] [-- COMMAND [ARG...]]",
		Short: "Supervise a service",
		Long: `Opens the sockets, starts the service with them, and supervises it until it is told to stop.

Signals: HUP hands off to a new version, started from the configuration as it is then (a terminal
that is closed sends it too);
TERM and INT stop in order: the service drains; QUIT stops at once: it is killed;
USR1 writes the status to the log; USR2 replaces the supervisor itself (see upgrade).

Each socket of --listen may have options, as in 'http=tcp://:8080?backlog=1024':
` + socketOptions() + `.

Exit status: 0 stopped as asked; 1 another supervisor of this name runs, or with --fail-fast the first
start failed; 2 wrong usage or configuration, or a socket that cannot be opened.`,
		Example: `  zddsupervisor run --listen :8080 -- /srv/app/bin/app
  zddsupervisor run --config /etc/zddsupervisor/app.toml`,
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration file; every key in it has a flag, which wins")
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// Before anything else: a reload that comes early must not end the supervisor.
		signals := listenForSignals()
		defer signals.close()
		return supervise(newSource(path, cmd.Flags(), args), signals, cmd.ErrOrStderr())
	}
	return cmd
}

// socketOptions lists the options of a socket.
func socketOptions() string {
	var names []string
	for _, key := range config.Keys() {
		if name, ok := strings.CutPrefix(key.Name, "socket."); ok && name != "listen" {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// newSource says where a configuration comes from.
func newSource(path string, flags *config.FlagSet, args []string) *config.Source {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/" // started in a directory that is gone: relative paths in the configuration will say so
	}
	return &config.Source{Path: path, Flags: flags, Args: args, WorkingDirectory: dir, Getenv: os.Getenv}
}

// supervise runs a supervisor from its configuration to its end.
func supervise(source *config.Source, signals *signals, stderr io.Writer) (err error) {
	inherited, err := systemd.Inherited()
	if err != nil {
		return fmt.Errorf("take the sockets that systemd passed: %w", err)
	}
	defer closeSockets(inherited)
	cfg, broken, configErr := loadOrRecall(source)
	line, err := joinLine(cfg)
	if err != nil {
		return err
	}
	if before := line.Predecessor(); before != nil {
		defer func() {
			if err != nil {
				before.Fail(err)
			}
		}()
	}
	if configErr != nil {
		return usageError{configErr}
	}
	// The heap is small and the process lives for years: memory is worth more here than the time to collect it.
	debug.SetGCPercent(25)
	logger := logging.New(logging.Options{Format: cfg.Log.Format, Stderr: stderr, JournalStream: os.Getenv("JOURNAL_STREAM"), Name: cfg.Name})
	defer logger.Close()
	log := logger.Logger

	manager, err := systemd.NewNotifier(os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	if err := control.MakeDirectory(cfg.RuntimeDirectory); err != nil {
		return usageError{fmt.Errorf("cannot make the directory %s: %w", cfg.RuntimeDirectory, errors.Unwrap(err))}
	}
	if err := control.MakeDirectory(cfg.StateDirectory); err != nil {
		// A supervisor that is started again after a crash has a service to take care of, whatever has become of the disk.
		log.Error("the state directory cannot be made: what would be written there is not", "path", cfg.StateDirectory, "cause", errors.Unwrap(err))
	}
	if broken != nil {
		log.Error("the configuration cannot be used; the service goes on as it was started, and a reload will tell the same", "cause", broken)
	}
	if len(cfg.Sockets) == 0 {
		log.Warn("no socket is configured (see --listen): nothing can be handed over")
	}
	told, err := openMetrics(cfg, line.Predecessor() != nil, log)
	if err != nil {
		return usageError{err}
	}
	defer told.close()
	var left *legacy
	if before := line.Predecessor(); before != nil {
		left, err = succeed(cfg, before, manager, log)
	} else {
		left, err = begin(cfg, inherited, manager, log)
	}
	if err != nil {
		return err
	}
	defer left.close()
	if ownDirectory(cfg) {
		left.control.Temporary()
	}
	var cgroups *child.Delegation
	if cfg.Cgroup == config.CgroupAuto {
		if cgroups, err = child.OpenDelegation(); err != nil {
			log.Warn("the control group cannot be used; processes are found without it", "cause", err)
		}
	}
	reaper, err := child.NewReaper(child.ReaperOptions{})
	if err != nil {
		return err
	}
	defer reaper.Close()

	records := history.Open(history.Options{Directory: cfg.StateDirectory, Log: log})
	defer records.Close()
	if left.saved != nil {
		records.Resume(left.saved.Last)
	}
	handoffs, generations := records.Newest()

	plans := planner{reaper: reaper, environ: os.Environ()}
	options := upgrade.Options{
		Name: cfg.Name,
		Plan: plans.plan(cfg),
		Load: func() (*upgrade.Plan, error) {
			now, err := source.Load()
			if err == nil {
				err = sameSupervisor(cfg, now)
			}
			if err != nil {
				return nil, err
			}
			return plans.plan(now), nil
		},
		Restore: func(source json.RawMessage) (*upgrade.Plan, error) {
			was := new(config.Config)
			if err := json.Unmarshal(source, was); err != nil {
				return nil, err
			}
			return plans.plan(was), nil
		},
		Saved: left.saved, Stored: left.stored, Systemd: left.systemd, Adopted: left.adopted,
		StatePath: statePath(cfg), KeepSockets: systemd.Stores(),
		Reaper: reaper, Cgroups: cgroups, Manager: manager, Log: log,
		Observers: []upgrade.Observer{records, told.metrics}, Good: records.Good, Handoffs: handoffs, Number: generations,
		RuntimeDirectory: cfg.RuntimeDirectory, FailFast: cfg.FailFast, WatchdogEvery: left.watchdog,
	}
	if manager != nil {
		options.SignalHold = signalHold
		options.Store = manager
	}
	supervisor := &incumbent{
		Supervisor: upgrade.New(options), line: line, manager: manager, reaper: reaper, listener: left.control,
		systemd: left.systemd, watchdog: left.watchdog, history: records, log: log, temporary: ownDirectory(cfg),
	}
	identity := control.Identity{Name: cfg.Name, PID: os.Getpid(), Program: version(), StateDirectory: cfg.StateDirectory}
	supervisor.server = control.NewServer(identity, supervisor, log)
	told.serve(supervisor)
	supervisor.server.Serve(left.control)
	obeyed := signals.obey(supervisor)
	err = supervisor.Run()
	if !errors.Is(err, upgrade.ErrReplaced) {
		line.Stop()
	}
	obeyed()
	told.close()
	if errors.Is(err, upgrade.ErrReplaced) {
		return supervisor.leave(signals)
	}
	var unopened *fdpass.OpenError
	if errors.As(err, &unopened) {
		err = usageError{err}
	}
	return errors.Join(err, supervisor.server.Close())
}

// ownDirectory reports whether the runtime directory is the one that a supervisor makes for itself where nobody has said
// anything about it, and so removes when it stops. One that is configured, or systemd's, is there for others to use too.
func ownDirectory(cfg *config.Config) bool {
	base, name := filepath.Split(cfg.RuntimeDirectory)
	return os.Getenv("RUNTIME_DIRECTORY") == "" && name == cfg.Name && filepath.Base(base) == "zddsupervisor"
}

// statePath is where a supervisor leaves word for the next one.
func statePath(cfg *config.Config) string { return filepath.Join(cfg.RuntimeDirectory, stateName) }

// signalHold is how long a handoff that SIGHUP asked for waits for an ExecReload= command to join it. See
// upgrade.Options.SignalHold: if the command takes longer, there is one handoff more, which does no harm.
const signalHold = 200 * time.Millisecond

// sameSupervisor refuses a configuration that would need another supervisor.
func sameSupervisor(was, now *config.Config) error {
	for _, key := range []struct{ name, was, now string }{
		{"name", was.Name, now.Name},
		{"runtime-directory", was.RuntimeDirectory, now.RuntimeDirectory},
		{"state-directory", was.StateDirectory, now.StateDirectory},
		{"metrics.listen", was.Metrics.Listen, now.Metrics.Listen},
	} {
		if key.was != key.now {
			return fmt.Errorf("%s cannot be changed by a reload: it is %q until the supervisor is restarted", key.name, key.was)
		}
	}
	return nil
}
