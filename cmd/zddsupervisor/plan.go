package main

import (
	"fmt"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A planner makes plans from configurations.
type planner struct {
	reaper  *child.Reaper // runs ready commands
	environ []string      // the supervisor's own environment
}

// plan makes a plan. Everything that may change between two generations is looked up by Prepare.
func (p planner) plan(cfg *config.Config) *upgrade.Plan {
	return &upgrade.Plan{
		Sockets:      cfg.Sockets,
		Places:       cfg.Places,
		Prepare:      func(generation int) (*upgrade.Prepared, error) { return p.prepare(cfg, generation) },
		ReadyTimeout: cfg.Ready.Timeout,
		CheckTimeout: cfg.Check.Timeout,
		SettleMax:    cfg.Settle.Max,
		Watchdog:     cfg.Watchdog,
		DrainSignal:  cfg.Drain.Signal, DrainTimeout: cfg.Drain.Timeout, DrainGenerations: cfg.Drain.Generations,
	}
}

// prepare resolves what one generation is started from.
func (p planner) prepare(cfg *config.Config, generation int) (*upgrade.Prepared, error) {
	release, err := cfg.Release()
	if err != nil {
		return nil, err
	}
	values := cfg.Values(generation, release)
	environ, err := cfg.Environ(child.CleanEnv(p.environ), values)
	if err != nil {
		return nil, err
	}
	if cfg.Watchdog > 0 {
		environ = append(environ, fmt.Sprintf("WATCHDOG_USEC=%d", cfg.Watchdog.Microseconds()))
	}
	credential, err := account(cfg)
	if err != nil {
		return nil, err
	}
	command := func(argv []string) (child.Command, error) {
		argv, err := values.Expand(argv)
		if err != nil {
			return child.Command{}, err
		}
		c := child.Command{Args: argv, Env: environ, Dir: cfg.Directory, Credential: credential, Umask: cfg.Umask, Path: argv[0]}
		for _, l := range cfg.Limits {
			limit := child.Limit{Resource: l.Resource}
			limit.Cur, limit.Max = l.Soft, l.Hard
			c.Limits = append(c.Limits, limit)
		}
		return c, nil
	}
	prepared := &upgrade.Prepared{Release: release}
	if prepared.Command, err = command(cfg.Command); err != nil {
		return nil, err
	}
	if len(cfg.Check.Command) > 0 {
		check, err := command(cfg.Check.Command)
		if err != nil {
			return nil, fmt.Errorf("the check command: %w", err)
		}
		prepared.Check = &check
	}
	prepared.Ready, err = p.ready(cfg.Ready, values)
	return prepared, err
}

// ready says how to wait for the ready signal. Each kind is a child.Waiter of its own.
func (p planner) ready(r config.Ready, values config.Values) (func(notified <-chan struct{}) child.Waiter, error) {
	switch r.By {
	case config.ByFD:
		return func(<-chan struct{}) child.Waiter { return &child.FDReady{} }, nil
	case config.ByExec:
		argv, err := values.Expand(r.Command)
		if err != nil {
			return nil, fmt.Errorf("the ready command: %w", err)
		}
		return func(<-chan struct{}) child.Waiter {
			return &child.ExecReady{Reaper: p.reaper, Path: argv[0], Args: argv, Interval: r.Interval}
		}, nil
	case config.ByDelay:
		return func(<-chan struct{}) child.Waiter { return &child.DelayReady{Delay: r.Delay} }, nil
	}
	return func(notified <-chan struct{}) child.Waiter { return &child.NotifyReady{Ready: notified} }, nil
}

// account returns who the service runs as; nil for the supervisor's own user.
func account(cfg *config.Config) (*child.Credential, error) {
	if cfg.User == "" && cfg.Group == "" {
		return nil, nil
	}
	return child.LookupCredential(cfg.User, cfg.Group)
}
