package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/history"
	"github.com/zddsupervisor/zddsupervisor/internal/succession"
	"github.com/zddsupervisor/zddsupervisor/systemd"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// An incumbent is the supervisor that has the service, with what it takes to be followed by another one.
type incumbent struct {
	*upgrade.Supervisor
	line     *succession.Line
	manager  *systemd.Notifier
	reaper   *child.Reaper
	server   *control.Server
	listener *control.Listener
	systemd  map[string][]*fdpass.FD
	watchdog time.Duration
	history  *history.Log // borrowed
	log      *slog.Logger

	upgrading sync.WaitGroup // calls of Upgrade
	successor int            // the process that has taken over; set before Run returns
}

var (
	errInit     = errors.New("process 1 cannot be replaced: the container, or machine, would end with it")
	errUpgraded = errors.New("cannot be replaced")
)

// managerLimit bounds the wait for the service manager to take in who the main process is.
const managerLimit = 10 * time.Second

// Upgrade starts another supervisor, from the program as it is on disk now, and leaves it the service. It blocks until
// that one has everything, or has failed: then this one goes on, and the error says why.
func (i *incumbent) Upgrade(ctx context.Context, by string) (pid int, err error) {
	if os.Getpid() == 1 {
		return 0, errInit
	}
	i.upgrading.Add(1)
	defer i.upgrading.Done()
	// Whoever starts a process waits for it.
	defer i.reaper.HoldStrays()()
	i.log.Info("starting another supervisor", "by", by)
	successor, err := i.line.Start()
	if err == nil {
		err = i.Replace(context.WithoutCancel(ctx), handover{i, successor})
		defer func() { successor.Close(err) }()
	}
	if err != nil {
		i.endLeft()
		i.log.Error("the supervisor was not replaced, and goes on", "cause", err)
		return 0, fmt.Errorf("the supervisor %w, and goes on: %w", errUpgraded, err)
	}
	// From here on there is no way back.
	i.successor = successor.PID
	wait, cancel := context.WithTimeout(context.Background(), managerLimit)
	defer cancel()
	err = i.manager.MainPID(successor.PID)
	if err == nil {
		err = i.manager.Barrier(wait)
	}
	if err != nil {
		i.log.Warn("the service manager could not be told of the new supervisor", "pid", successor.PID, "cause", err)
	}
	if err := successor.Main(); err != nil {
		i.log.Warn("the new supervisor does not listen", "pid", successor.PID, "cause", err)
	}
	i.log.Info("replaced", "by", successor.PID)
	return successor.PID, nil
}

// endLeft ends what a successor has started that has failed: it would be there for ever.
func (i *incumbent) endLeft() {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	killed, err := child.KillLeft(ctx, succession.Mark)
	if killed > 0 {
		i.log.Warn("killed what the new supervisor has left", "processes", killed)
	}
	if err != nil {
		i.log.Error("cannot end what the new supervisor has left", "cause", err)
	}
}

// A handover is the upgrade.Successor that gives everything to a process.
type handover struct {
	from *incumbent
	to   *succession.Successor
}

func (h handover) TakeOver(sockets map[string]*fdpass.FD) error {
	parts, err := h.from.listener.Files()
	if err != nil {
		return err
	}
	defer func() {
		for _, fd := range parts {
			fd.Close()
		}
	}()
	// What the other one cannot read is not worth waiting for.
	flush, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := h.from.history.Flush(flush); err != nil {
		h.from.log.Warn("the other supervisor may not know of the last handoff", "cause", err)
	}
	h.from.server.Pause()
	err = h.to.TakeOver(succession.Estate{Sockets: sockets, Systemd: h.from.systemd, Control: parts, Watchdog: h.from.watchdog})
	if err == nil {
		return nil
	}
	l, inheritErr := control.Inherit(parts)
	if inheritErr != nil {
		return errors.Join(err, inheritErr)
	}
	h.from.listener = l
	h.from.server.Serve(l)
	return err
}

// leave ends the incumbent's process in favour of its successor: what came too late is passed on, and what it still
// relays goes on until it ends. Nobody obeys signals any more.
func (i *incumbent) leave(signals *signals) error {
	i.upgrading.Wait()
	passOn := func(late []unix.Signal) {
		for _, sig := range late {
			if err := unix.Kill(i.successor, sig); err != nil {
				i.log.Warn("a signal came too late and could not be passed on", "signal", unix.SignalName(sig), "cause", err)
			}
		}
	}
	passOn(append(i.Unheeded(), signals.left()...))
	err := i.server.Close()
	i.Relays(context.Background())
	passOn(signals.left())
	return err
}
