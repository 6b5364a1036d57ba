package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// hooks returns the configured hooks.
func (p planner) hooks(cfg *config.Config) upgrade.Hooks {
	return upgrade.Hooks{
		BeforeCutover: p.hook(cfg, cfg.Hooks.BeforeCutover),
		AfterLive:     p.hook(cfg, cfg.Hooks.AfterLive),
		AfterGone:     p.hook(cfg, cfg.Hooks.AfterGone),
		Timeout:       cfg.Hooks.Timeout,
	}
}

// hook makes the command of a hook; nil where none is configured.
func (p planner) hook(cfg *config.Config, argv []string) upgrade.HookFunc {
	if len(argv) == 0 {
		return nil
	}
	return func(about upgrade.HookFacts) (*child.Command, error) {
		command, values, err := p.commands(cfg, about.Generation, about.Release)
		if err != nil {
			return nil, err
		}
		c, err := command(argv)
		if err != nil {
			return nil, err
		}
		if len(about.Ports) > 0 {
			c = ported(c, values.WithPorts(about.Ports))
		}
		c.Env = append(withoutFacts(c.Env),
			"ZDD_NAME="+cfg.Name, "ZDD_HANDOFF="+numberOrNothing(about.Handoff),
			"ZDD_GENERATION="+strconv.Itoa(about.Generation), "ZDD_RELEASE="+about.Release,
			"ZDD_PREVIOUS_GENERATION="+numberOrNothing(about.PreviousGeneration), "ZDD_PREVIOUS_RELEASE="+about.PreviousRelease)
		return &c, nil
	}
}

// withoutFacts returns an environment without the variables that tell a hook what it is about.
func withoutFacts(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		switch name {
		case "ZDD_NAME", "ZDD_HANDOFF", "ZDD_GENERATION", "ZDD_RELEASE", "ZDD_PREVIOUS_GENERATION", "ZDD_PREVIOUS_RELEASE":
			return true
		}
		return false
	})
}

// numberOrNothing is "" for 0, which no handoff and no generation has.
func numberOrNothing(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
