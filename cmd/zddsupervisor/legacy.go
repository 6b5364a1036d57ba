package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/succession"
	"github.com/zddsupervisor/zddsupervisor/systemd"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A legacy is what a supervisor begins with: what systemd has passed to it, what one before it has left.
type legacy struct {
	saved    *upgrade.Saved
	stored   map[string]*fdpass.FD
	systemd  map[string][]*fdpass.FD
	control  *control.Listener
	watchdog time.Duration
	adopted  func() error
	owned    []*fdpass.FD // closed by close
}

// close closes what the supervisor has not taken. The control socket is closed too, if nobody has served it.
func (l *legacy) close() {
	l.control.Close()
	for _, fd := range l.owned {
		fd.Close()
	}
}

// defaultUpgradeTimeout is for where there is no configuration to ask.
const defaultUpgradeTimeout = 30 * time.Second

// joinLine makes this process one that can follow another supervisor, and be followed. cfg may be nil.
func joinLine(cfg *config.Config) (*succession.Line, error) {
	timeout := defaultUpgradeTimeout
	if cfg != nil && cfg.UpgradeTimeout > 0 {
		timeout = cfg.UpgradeTimeout
	}
	return succession.Join(timeout)
}

// begin takes what was passed to this process, and finds what a supervisor has left that has died.
func begin(cfg *config.Config, inherited map[string][]*fdpass.FD, manager *systemd.Notifier, log *slog.Logger) (l *legacy, err error) {
	l = new(legacy)
	if l.watchdog, err = systemd.WatchdogEvery(); err != nil {
		return nil, err
	}
	if l.control, err = control.Listen(filepath.Join(cfg.RuntimeDirectory, control.SocketName)); err != nil {
		return nil, err
	}
	l.systemd, l.stored = sortInherited(inherited)
	l.saved, err = upgrade.LoadSaved(statePath(cfg))
	if err == nil && l.saved == nil && len(l.stored) > 0 {
		err = fmt.Errorf("%w: it is gone", upgrade.ErrSaved)
	}
	if err != nil {
		log.Error("what the supervisor before this one was doing is not known; the service is started anew", "cause", err)
		endUnknown(log)
		forget(l.stored, manager, log)
	}
	return l, nil
}

// succeed takes the place of a supervisor that runs. It blocks until that one has let go of everything.
func succeed(cfg *config.Config, before *succession.Predecessor, manager *systemd.Notifier, log *slog.Logger) (l *legacy, err error) {
	// While there is still time to say no: what this one writes is what the other one will have written.
	if _, err := loadLeft(cfg); err != nil {
		return nil, err
	}
	estate, err := before.Await()
	if err != nil {
		return nil, err
	}
	l = &legacy{stored: estate.Sockets, systemd: estate.Systemd, watchdog: estate.Watchdog}
	for _, fds := range estate.Systemd {
		l.owned = append(l.owned, fds...)
	}
	if l.saved, err = loadLeft(cfg); err != nil {
		estate.Close()
		return nil, err
	}
	if l.control, err = control.Inherit(estate.Control, estate.ControlFile); err != nil {
		estate.Close()
		return nil, err
	}
	l.control.Leave()
	l.adopted = func() error {
		if err := before.Ready(); err != nil && manager != nil {
			return fmt.Errorf("%w: the service manager starts another one", err)
		} else if err != nil {
			log.Warn("goes on alone", "cause", err)
		}
		l.control.Keep()
		return nil
	}
	return l, nil
}

// loadLeft reads what a supervisor that runs has written down.
func loadLeft(cfg *config.Config) (*upgrade.Saved, error) {
	path := statePath(cfg)
	saved, err := upgrade.LoadSaved(path)
	if err == nil && saved == nil {
		err = errors.New("there is no " + path + ": the configuration names another runtime directory")
	}
	return saved, err
}

// endUnknown ends what a supervisor has left behind of which nothing is known: it would be in the way of the service
// for ever. Only the process that systemd has started is sure that its cgroup is its own unit's: another may have been started
// in that of cron, or of another supervisor.
func endUnknown(log *slog.Logger) {
	if !fromSystemd() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	killed, err := child.Sweep(ctx)
	if killed > 0 {
		log.Warn("killed what the supervisor before this one has left in the unit", "processes", killed)
	}
	if err != nil {
		log.Error("cannot end what the supervisor before this one has left", "cause", err)
	}
}

// forget has systemd let go of sockets of which nothing is known, and waits until it has: their addresses are needed.
func forget(stored map[string]*fdpass.FD, manager *systemd.Notifier, log *slog.Logger) {
	if len(stored) == 0 {
		return
	}
	var errs []error
	for name, fd := range stored {
		errs = append(errs, manager.Unstore(name), fdpass.Discard(fd))
		delete(stored, name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), managerLimit)
	defer cancel()
	if err := errors.Join(append(errs, manager.Barrier(ctx))...); err != nil {
		log.Warn("systemd still keeps sockets of the supervisor before this one", "cause", err)
	}
}
