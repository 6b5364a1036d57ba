package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/systemd"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

func runCommand() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Supervise a service",
		Long: `Opens the sockets, starts the service with them, and supervises it until it is told to stop.

Signals: HUP hands off to a new version, started from the configuration as it is then;
TERM and INT stop in order: the service drains; QUIT stops at once: it is killed;
USR1 writes the status to the log.

Exit status: 0 stopped as asked; 1 it could not be started, or with --fail-fast the first start failed;
2 wrong usage or configuration.`,
		Example: `  zddsupervisor run --listen :8080 -- /srv/app/bin/app
  zddsupervisor run --config /etc/zddsupervisor/app.toml`,
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration file; every key in it has a flag, which wins")
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		// Before anything else: a reload that comes early must not end the supervisor.
		signals := make(chan os.Signal, 16)
		signal.Notify(signals, unix.SIGHUP, unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1, unix.SIGCONT, unix.SIGPIPE)
		defer signal.Stop(signals)
		source, err := newSource(path, cmd.Flags(), args)
		if err != nil {
			return err
		}
		return supervise(source, signals, cmd.ErrOrStderr())
	}
	return cmd
}

// newSource says where a configuration comes from.
func newSource(path string, flags *config.FlagSet, args []string) (*config.Source, error) {
	dir, err := os.Getwd()
	if err != nil {
		dir = "/" // started in a directory that is gone: relative paths in the configuration will say so
	}
	return &config.Source{Path: path, Flags: flags, Args: args, WorkingDirectory: dir, Getenv: os.Getenv}, nil
}

// supervise runs a supervisor from its configuration to its end.
func supervise(source *config.Source, signals <-chan os.Signal, stderr io.Writer) (err error) {
	cfg, err := source.Load()
	if err != nil {
		return usageError{err}
	}
	// The heap is small and the process lives for years: memory is worth more here than the time to collect it.
	debug.SetGCPercent(25)
	out := newLogWriter(stderr)
	defer out.Close()
	log := newLogger(out)

	sockets, err := systemd.Inherited()
	if err != nil {
		return fmt.Errorf("take the sockets that systemd passed: %w", err)
	}
	defer func() {
		for _, fds := range sockets {
			for _, fd := range fds {
				fd.Close()
			}
		}
	}()
	manager, err := systemd.NewNotifier(os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %w", err)
	}
	watchdog, err := systemd.WatchdogEvery()
	if err != nil {
		return err
	}
	for _, dir := range []string{cfg.RuntimeDirectory, cfg.StateDirectory} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make the directory %s: %w", dir, errors.Unwrap(err))
		}
	}
	listener, err := control.Listen(filepath.Join(cfg.RuntimeDirectory, control.SocketName))
	if err != nil {
		return err
	}
	defer listener.Close()
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

	plans := planner{reaper: reaper, environ: os.Environ()}
	first := plans.plan(cfg)
	options := upgrade.Options{
		Plan: first,
		Load: func() (*upgrade.Plan, error) {
			cfg, err := source.Load()
			if err != nil {
				return nil, err
			}
			return plans.plan(cfg), nil
		},
		Reaper: reaper, Cgroups: cgroups, Systemd: sockets, Manager: manager, Log: log,
		RuntimeDirectory: cfg.RuntimeDirectory, FailFast: cfg.FailFast, WatchdogEvery: watchdog,
	}
	if manager != nil {
		options.SignalHold = signalHold
	}
	supervisor := upgrade.New(options)
	server := control.Serve(listener, control.Identity{Name: cfg.Name, PID: os.Getpid(), Program: version()}, supervisor, log)
	stop := make(chan struct{})
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		obey(supervisor, signals, stop, log)
	}()
	err = supervisor.Run()
	close(stop)
	<-heard
	var unopened *fdpass.OpenError
	if errors.As(err, &unopened) {
		err = usageError{err}
	}
	return errors.Join(err, server.Close())
}

// signalHold is how long a handoff that SIGHUP asked for waits for an ExecReload= command to join it. See
// upgrade.Options.SignalHold: if the command takes longer, there is one handoff more, which does no harm.
const signalHold = 200 * time.Millisecond

// obey does what signals ask for, until stop is closed.
func obey(s *upgrade.Supervisor, signals <-chan os.Signal, stop <-chan struct{}, log *slog.Logger) {
	for {
		select {
		case sig := <-signals:
			switch sig {
			case unix.SIGHUP:
				s.Ask(upgrade.Request{By: "SIGHUP", Signal: true})
			case unix.SIGTERM, unix.SIGINT:
				s.Stop()
			case unix.SIGQUIT:
				s.Kill()
			case unix.SIGUSR1:
				if st, err := s.Status(context.Background()); err == nil {
					log.Info("status", "phase", st.Phase, "generations", st.Generations, "sockets", st.Sockets)
				}
			case unix.SIGCONT: // the unit's ReloadSignal=, which ExecReload= follows
			case unix.SIGPIPE: // nobody reads the log any more; the runtime would end the process for it
			}
		case <-stop:
			return
		}
	}
}

// newLogger logs as text; without the time where the journal adds its own.
func newLogger(out io.Writer) *slog.Logger {
	var o slog.HandlerOptions
	if os.Getenv("JOURNAL_STREAM") != "" {
		o.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
	}
	return slog.New(slog.NewTextHandler(out, &o))
}
