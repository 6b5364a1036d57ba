package upgrade

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

func (s *Supervisor) hold(ctx context.Context, h *handoff) work {
	hold := s.opts.SignalHold
	select {
	case <-h.joined:
		return nil
	default:
	}
	if hold <= 0 {
		return nil
	}
	return func() (func(), error) {
		timer := time.NewTimer(hold)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-h.joined:
		case <-ctx.Done():
		}
		return nil, nil
	}
}

func (s *Supervisor) resolve(h *handoff) work {
	plan, load, number, wanted := h.plan, s.opts.Load, s.number+1, h.wanted
	if plan == nil {
		h.read = bootTicks()
	}
	return func() (func(), error) {
		var err error
		if plan == nil {
			if plan, err = load(); err != nil {
				return nil, err
			}
		}
		if len(wanted) > 0 {
			if err := s.point(h, plan, wanted); err != nil {
				return func() { h.plan = plan }, err
			}
		}
		prepared, err := plan.Prepare(number)
		return func() {
			h.plan, h.prepared = plan, prepared
			if prepared != nil {
				h.record.ToRelease = prepared.Release
			}
		}, err
	}
}

func (s *Supervisor) check(parent context.Context, h *handoff) work {
	check, limit := h.prepared.Check, h.plan.CheckTimeout
	if check == nil {
		return nil
	}
	return func() (func(), error) {
		ctx, cancel := context.WithTimeout(parent, limit)
		defer cancel()
		exit, err := s.opts.Reaper.Run(ctx, *check)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("the check command %s did not end within %s", check.Path, limit)
		case err != nil:
			return nil, fmt.Errorf("the check command: %w", err)
		case !exit.Success():
			return nil, fmt.Errorf("the check command %s ended (%s); its output, in the supervisor's log, says why", check.Path, exit)
		}
		return nil, nil
	}
}

func (s *Supervisor) open(h *handoff) work {
	specs, places := h.plan.Sockets, h.plan.Places
	o := fdpass.OpenOptions{Have: s.bound, FromSystemd: s.opts.Systemd, Service: s.opts.Name, Log: s.log}
	if c := h.prepared.Command.Credential; c != nil {
		o.Owner = int(c.UID)
	}
	alone := len(s.generations) == 0
	return func() (func(), error) {
		bound, fresh, err := fdpass.Open(specs, o)
		var failed *fdpass.OpenError
		if errors.As(err, &failed) {
			err = s.explainLeft(failed, alone)
			if i := slices.Index(specs, failed.Spec); i >= 0 && i < len(places) {
				err = fmt.Errorf("%s: %w", places[i], err)
			}
		}
		for _, b := range fresh {
			s.log.Info("opened", "socket", b.Spec.FDName(), "address", b.Socket.Addr(), "mode", string(b.Socket.Mode()))
		}
		return func() { h.bound, h.fresh = bound, fresh }, err
	}
}

// explainLeft says so where an address is in use by what a supervisor before this one has started, of which nothing is known
// any more. alone says that this one has started nothing.
func (s *Supervisor) explainLeft(failed *fdpass.OpenError, alone bool) *fdpass.OpenError {
	if !alone || !errors.Is(failed, unix.EADDRINUSE) {
		return failed
	}
	left, err := child.Left(filepath.Join(s.opts.RuntimeDirectory, notifyFile))
	if err != nil || len(left) == 0 {
		return failed
	}
	pids := strings.Trim(fmt.Sprint(left), "[]")
	failed.Reason = fmt.Sprintf("its address %s is in use by the service itself, which a supervisor has left that is gone, and of which nothing is known any more: process %s; "+
		"end it (kill %[2]s) and start again", failed.Spec.Address, pids)
	return failed
}
