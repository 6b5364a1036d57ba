package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/internal/probe"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A planner makes plans from configurations.
type planner struct {
	reaper  *child.Reaper // runs ready commands
	environ []string      // the supervisor's own environment
}

// plan makes a plan. Everything that may change between two generations is looked up by Prepare.
func (p planner) plan(cfg *config.Config) *upgrade.Plan {
	source, err := json.Marshal(cfg)
	if err != nil {
		panic("a configuration is plain data: " + err.Error())
	}
	return &upgrade.Plan{
		Source:       source,
		Sockets:      cfg.Sockets,
		Places:       cfg.Places,
		Prepare:      func(generation int) (*upgrade.Prepared, error) { return p.prepare(cfg, generation) },
		Releases:     releasesOf(cfg),
		ReadyTimeout: cfg.Ready.Timeout,
		CheckTimeout: cfg.Check.Timeout,
		SettleMax:    cfg.Settle.Max,
		Soak:         cfg.Handoff.Soak,
		Linger:       cfg.Drain.Linger,
		Probe:        probeOf(cfg.Probe),
		Canary:       canaryOf(cfg.Handoff.Canary),
		Carry:        carryOf(cfg.Handoff),
		Watchdog:     cfg.Watchdog,
		Probation:    cfg.Handoff.Probation, AutoRollback: cfg.Handoff.AutoRollback,
		Hooks:       p.hooks(cfg),
		DrainSignal: cfg.Drain.Signal, DrainTimeout: cfg.Drain.Timeout, DrainGenerations: cfg.Drain.Generations,
	}
}

// prepare resolves what one generation is started from.
func (p planner) prepare(cfg *config.Config, generation int) (*upgrade.Prepared, error) {
	release, err := cfg.Release()
	if err != nil {
		return nil, err
	}
	command, values, err := p.commands(cfg, generation, release)
	if err != nil {
		return nil, err
	}
	prepared := &upgrade.Prepared{Release: release}
	if prepared.Command, err = command(cfg.Command); err != nil {
		return nil, err
	}
	prepared.Ported = func(ports map[string]int) (child.Command, error) {
		return ported(prepared.Command, values.WithPorts(ports)), nil
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

// commands returns a function that makes a command of what is configured, for one generation of a release, and what placeholders
// stand for in it.
func (p planner) commands(cfg *config.Config, generation int, release string) (command func(argv []string) (child.Command, error), values config.Values, err error) {
	values = cfg.Values(generation, release)
	environ, err := cfg.Environ(child.CleanEnv(p.environ), values)
	if err != nil {
		return nil, values, err
	}
	if cfg.Watchdog > 0 {
		environ = append(environ, fmt.Sprintf("WATCHDOG_USEC=%d", cfg.Watchdog.Microseconds()))
	}
	credential, err := account(cfg)
	if err != nil {
		return nil, values, err
	}
	command = func(argv []string) (child.Command, error) {
		argv, err := values.Expand(argv)
		if err != nil {
			return child.Command{}, err
		}
		c := child.Command{Args: argv, Env: environ, Dir: cfg.Directory, Credential: credential, Umask: cfg.Umask, Path: argv[0], Pass: cfg.Pass, Generation: generation}
		for _, l := range cfg.Limits {
			limit := child.Limit{Resource: l.Resource}
			limit.Cur, limit.Max = l.Soft, l.Hard
			c.Limits = append(c.Limits, limit)
		}
		return c, nil
	}
	return command, values, nil
}

// ported returns a command with private ports put in.
func ported(c child.Command, values config.PortValues) child.Command {
	c.Args = values.Expand(c.Args)
	c.Path, c.Env = c.Args[0], values.Environ(c.Env)
	return c
}

// probeOf returns the configured probe, or nil.
func probeOf(p config.Probe) *upgrade.Probe {
	if p.Path == "" {
		return nil
	}
	request := probe.HTTP{Socket: p.Socket, Path: p.Path, Host: p.Host, Status: p.Status}
	return &upgrade.Probe{
		Ask:   func(ctx context.Context, t *upgrade.Target) error { return request.Ask(ctx, t) },
		Count: p.Count, Timeout: p.Timeout, Interval: p.Interval,
	}
}

func canaryOf(steps []config.CanaryStep) (plan []upgrade.CanaryStep) {
	for _, step := range steps {
		plan = append(plan, upgrade.CanaryStep(step))
	}
	return plan
}

// carryOf returns how connections are carried over, or nil.
func carryOf(c config.Handoff) *upgrade.Carry {
	if c.KeepAlive != config.KeepAliveCarry {
		return nil
	}
	return &upgrade.Carry{Wait: c.CarryWait, Idle: c.CarryIdle, Relays: c.CarryRelays}
}

// A readiness makes a waiter for one generation.
type readiness = func(notified <-chan struct{}, new *upgrade.Target) child.Waiter

// ready says how to wait for the ready signal. Each kind is a child.Waiter of its own.
func (p planner) ready(r config.Ready, values config.Values) (readiness, error) {
	switch r.By {
	case config.ByFD:
		return func(<-chan struct{}, *upgrade.Target) child.Waiter { return &child.FDReady{} }, nil
	case config.ByHTTP:
		return readyByAsking(r, probe.HTTP{Socket: r.Socket, Path: r.Path, Host: r.Host}), nil
	case config.ByAccept:
		return readyByAsking(r, probe.Accept{Socket: r.Socket}), nil
	case config.ByExec:
		argv, err := values.Expand(r.Command)
		if err != nil {
			return nil, fmt.Errorf("the ready command: %w", err)
		}
		return func(_ <-chan struct{}, new *upgrade.Target) child.Waiter {
			argv := values.WithPorts(new.Ports()).Expand(argv)
			return &child.ExecReady{Reaper: p.reaper, Path: argv[0], Args: argv, Interval: r.Interval}
		}, nil
	case config.ByEinhorn:
		return func(<-chan struct{}, *upgrade.Target) child.Waiter { return &child.EinhornReady{} }, nil
	case config.ByDelay:
		return func(<-chan struct{}, *upgrade.Target) child.Waiter { return &child.DelayReady{Delay: r.Delay} }, nil
	}
	return func(notified <-chan struct{}, _ *upgrade.Target) child.Waiter {
		return &child.NotifyReady{Ready: notified}
	}, nil
}

// A question is something that a generation can be asked.
type question interface {
	Ask(ctx context.Context, t probe.Target) error
	fmt.Stringer
}

// readyByAsking waits until the new generation answers a question.
func readyByAsking(r config.Ready, q question) readiness {
	return func(_ <-chan struct{}, new *upgrade.Target) child.Waiter {
		return &child.AskReady{
			By: string(r.By), Question: q.String(), Interval: r.Interval,
			Ask: func(ctx context.Context) error { return q.Ask(ctx, new) },
		}
	}
}

// account returns who the service runs as; nil for the supervisor's own user.
func account(cfg *config.Config) (*child.Credential, error) {
	if cfg.User == "" && cfg.Group == "" {
		return nil, nil
	}
	return child.LookupCredential(cfg.User, cfg.Group)
}
