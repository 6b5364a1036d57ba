package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
)

// What a terminal is told: to use a screen of its own without a cursor, and to go back.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	toTopLeft   = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// watch shows the status every so often, until a signal says that it is enough: on a terminal in place, on a screen of its own, else
// one below the other. A supervisor that does not answer at first is an error; one that goes away is waited for.
func watch(parent context.Context, client *control.Client, s screen, every time.Duration, show show) error {
	ctx, stop := signal.NotifyContext(parent, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	st, err := client.Status(ctx)
	if err != nil {
		return err
	}
	var last []string
	suspend := make(chan os.Signal, 1) // where there is somebody to say that it goes on: not in the first group of a session
	if s.terminal {
		if sid, err := unix.Getsid(0); err == nil && sid != unix.Getpgrp() && !signal.Ignored(unix.SIGTSTP) {
			signal.Notify(suspend, unix.SIGTSTP)
			defer signal.Stop(suspend)
		}
		if err := s.write(enterScreen); err != nil {
			return err
		}
		defer func() {
			s.write(leaveScreen)
			printLines(s.out, last) // stays to be read
		}()
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for first := true; ; first = false {
		if err == nil {
			last = show(s, st, nil, time.Now())
		} else {
			last = show(s, nil, err, time.Now())
		}
		if err := s.frame(last, first); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-suspend:
			if err := s.suspend(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
		if st, err = client.Status(ctx); ctx.Err() != nil {
			return nil
		}
	}
}

// suspend stops this process, which a shell that controls jobs sees, with the terminal as it was before, and returns when the process goes on.
func (s screen) suspend() error {
	if err := s.write(leaveScreen); err != nil {
		return err
	}
	// The runtime does not give SIGTSTP its default back. To this thread, so that it does nothing more before it stops.
	runtime.LockOSThread()
	err := unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGSTOP)
	runtime.UnlockOSThread()
	if err != nil {
		return os.NewSyscallError("tgkill", err)
	}
	return s.write(enterScreen)
}

func (s screen) write(text string) error {
	_, err := s.out.Write([]byte(text))
	return err
}

// frame shows lines instead of those before, on a terminal, or below them.
func (s screen) frame(lines []string, first bool) error {
	if !s.terminal {
		if !first && len(lines) > 1 { // a line by itself is an object
			lines = append([]string{""}, lines...)
		}
		return printLines(s.out, lines)
	}
	if _, height := s.size(); len(lines) > height {
		lines = lines[:height]
	}
	// In one piece: half a frame would flicker.
	return s.write(toTopLeft + strings.Join(lines, clearLine+"\r\n") + clearLine + clearBelow)
}
