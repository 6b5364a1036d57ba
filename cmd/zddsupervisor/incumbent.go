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

	temporary bool           // the control socket's directory goes with it
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
	mark := succession.NewMark()
	successor, err := i.line.Start(mark)
	if err == nil {
		if err = i.Replace(context.WithoutCancel(ctx), handover{i, successor}); err != nil {
			successor.Close(err) // which lets it end in order, if it still runs
		} else {
			defer successor.Close(nil)
		}
	}
	if err != nil {
		if !errors.Is(err, succession.ErrRunning) { // else nothing was started
			i.endLeft(mark)
		}
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

// endLeft ends what a successor with this mark has started that has failed: it would be there for ever.
func (i *incumbent) endLeft(mark string) {
	ctx, cancel := context.WithTimeout(context.Background(), sweepTimeout)
	defer cancel()
	killed, err := child.KillLeft(ctx, mark)
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
	parts, file, err := h.from.listener.Files()
	if err != nil {
		h.from.listener.Tend(h.from.log)
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
	err = h.to.TakeOver(succession.Estate{Sockets: sockets, Systemd: h.from.systemd, Control: parts, ControlFile: &file, Watchdog: h.from.watchdog})
	if err == nil {
		return nil
	}
	l, inheritErr := control.Inherit(parts, &file)
	if inheritErr != nil {
		return errors.Join(err, inheritErr)
	}
	if h.from.temporary {
		l.Temporary()
	}
	h.from.listener = l
	h.from.server.Serve(l)
	return err
}

// leave ends the incumbent's process in favour of its successor: what came too late is passed on, and what it still
// relays goes on until it ends, or a signal asks this process, which is nobody's supervisor any more, to stop. Of other signals
// nothing comes.
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
	passOn(signals.left()) // those that came while the last answers went
	relaying, over := signals.untilStop()
	defer over()
	i.Relays(relaying)
	return err
}
