package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// signals are what the process is sent. A channel that is full loses signals, so each kind has one of its own: a storm of
// one cannot make another be missed, and of one kind a second that finds the first still there says nothing new.
type signals struct {
	reload, stop, kill, status, upgrade, ignored chan os.Signal
}

// listenForSignals begins to take signals; they wait until obey.
func listenForSignals() *signals {
	listen := func(which ...os.Signal) chan os.Signal {
		c := make(chan os.Signal, 1)
		signal.Notify(c, which...)
		return c
	}
	return &signals{
		reload:  listen(unix.SIGHUP),
		stop:    listen(unix.SIGTERM, unix.SIGINT),
		kill:    listen(unix.SIGQUIT),
		status:  listen(unix.SIGUSR1),
		upgrade: listen(unix.SIGUSR2),
		// SIGCONT is the unit's ReloadSignal=, which ExecReload= follows. SIGPIPE says that nobody reads the log any more; the
		// runtime would end the process for it.
		ignored: listen(unix.SIGCONT, unix.SIGPIPE),
	}
}

func (s *signals) close() {
	for _, c := range []chan os.Signal{s.reload, s.stop, s.kill, s.status, s.upgrade, s.ignored} {
		signal.Stop(c)
	}
}

// left returns the signals that nobody has obeyed.
func (s *signals) left() (late []unix.Signal) {
	for _, c := range []chan os.Signal{s.reload, s.stop, s.kill} {
		select {
		case sig := <-c:
			late = append(late, sig.(unix.Signal))
		default:
		}
	}
	return late
}

// untilStop returns a context that ends when a signal asks the process to stop, for when nobody obeys them any more. over ends
// it, too.
func (s *signals) untilStop() (_ context.Context, over func()) {
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer cancel()
		select {
		case <-s.stop:
		case <-s.kill:
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel()
		<-watched
	}
}

// obey does what signals ask for, in goroutines that end, and are waited for, when the returned function is called. Those
// that come too late are left.
func (s *signals) obey(supervisor *incumbent) (stop func()) {
	var all sync.WaitGroup
	over := make(chan struct{})
	on := func(c chan os.Signal, do func() error) {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				select {
				case sig := <-c:
					if do() != nil { // it is over
						select {
						case c <- sig:
						default:
						}
						return
					}
				case <-over:
					return
				}
			}
		}()
	}
	on(s.reload, func() error { return supervisor.Ask(upgrade.Request{By: "SIGHUP", Signal: true}) })
	on(s.stop, supervisor.Stop)
	on(s.kill, supervisor.Kill)
	on(s.status, func() error { logStatus(supervisor.Supervisor, supervisor.log); return nil })
	on(s.upgrade, func() error {
		supervisor.Upgrade(context.Background(), "SIGUSR2") // which logs why not
		return nil
	})
	on(s.ignored, func() error { return nil })
	return func() {
		close(over)
		all.Wait()
	}
}

// logStatus writes the status to the log, as JSON.
func logStatus(supervisor *upgrade.Supervisor, log *slog.Logger) {
	st, err := supervisor.Status(context.Background())
	if err != nil {
		return // it has just ended
	}
	text, err := json.Marshal(st)
	if err != nil {
		log.Error("cannot tell the status", "cause", err)
		return
	}
	log.Info("status", "json", string(text))
}
