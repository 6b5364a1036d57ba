package config

import "time"

// handoffKeys are the keys of the move from one generation to the next, and of
// what becomes of the old one.
func handoffKeys() []Key {
	return []Key{
		{
			Name: "handoff.canary", Kind: Text, set: setCanary,
			Doc: `Share of the new connections that a new generation gets at first, such as "5%", or steps such as "5%:30s, 25%:30s". ` +
				`After the last step it gets all of them. A step lasts as long as it says, or else handoff.canary-time. ` +
				`If the new generation crashes or fails its probe meanwhile, all goes back to the old one. Only sockets that can be steered take part. ` +
				`The default is that it gets all of them at once.`,
		},
		{
			Name: "handoff.canary-time", Kind: Duration, set: duration(func(c *draft) *time.Duration { return &c.canaryTime }, 1),
			Doc: `How long a step of handoff.canary lasts that does not say so itself.`,
		},
		{
			Name: "settle.max", Kind: Duration, Default: "2s", set: duration(func(c *draft) *time.Duration { return &c.Settle.Max }, 0),
			Doc: `How long a handoff waits at most for the kernel to show that nothing is on its way to the old generation any more. ` +
				`The wait begins when new connections go to the new generation.`,
		},
		{
			Name: "handoff.soak", Kind: Duration, Default: "0s", set: duration(func(c *draft) *time.Duration { return &c.Handoff.Soak }, 0),
			Doc: `How long the old generation stays up and in reach after the new one has got all new connections. ` +
				`If the new one crashes or fails its probe in that time, all goes back to the old one.`,
		},
		{
			Name: "handoff.probation", Kind: Duration, Default: "1m", set: duration(func(c *draft) *time.Duration { return &c.Handoff.Probation }, 0),
			Doc: `How soon after it became live a generation that ends by itself speaks against its release: a rollback does not go to that one any more. ` +
				`See handoff.auto-rollback.`,
		},
		{
			Name: "handoff.auto-rollback", Kind: Bool, Default: "false", set: boolean(func(c *draft) *bool { return &c.Handoff.AutoRollback }),
			Doc: `Whether the last good release is started in the place of one that was deployed and has ended by itself within handoff.probation. ` +
				`That happens once: whatever becomes of it, there is no other way back by itself. It needs [releases]. ` +
				`If it is false, the same release is started again.`,
		},
		{
			Name: "drain.linger", Kind: Duration, Default: "0s", set: duration(func(c *draft) *time.Duration { return &c.Drain.Linger }, 0),
			Doc: `How long to wait, before drain.signal, for the connections of an old generation to end by themselves.`,
		},
		{
			Name: "drain.signal", Kind: Signal, Default: "SIGTERM", set: setDrainSignal,
			Doc: `Signal that asks an old generation to finish what it has begun and exit. Only its main process gets it.`,
		},
		{
			Name: "drain.timeout", Kind: Duration, Default: "30s", set: duration(func(c *draft) *time.Duration { return &c.Drain.Timeout }, 0),
			Doc: `How long an old generation may take to exit. After that all its processes are killed.`,
		},
		{
			Name: "drain.generations", Kind: Number, Default: "4", set: number(func(c *draft) *int { return &c.Drain.Generations }, 1, 1000),
			Doc: `How many old generations may drain at the same time. Past that the oldest is killed.`,
		},
		{
			Name: "releases.directory", Kind: Path, set: path(func(c *draft) *string { return &c.Releases.Directory }),
			Doc: `Directory with one directory for each release of the service. Goes with releases.current.`,
		},
		{
			Name: "releases.current", Kind: Path, set: path(func(c *draft) *string { return &c.Releases.Current }),
			Doc: `Symbolic link to the release that the next generation runs. See zddsupervisor deploy and rollback.`,
		},
		{
			Name: "releases.keep", Kind: Number, set: number(func(c *draft) *int { return &c.Releases.Keep }, 1, 100_000),
			Doc: `How many releases to keep. After a handoff that has succeeded, the oldest ones past that are removed from releases.directory, ` +
				`by the time at which their directory itself was last changed; but never the current one, one that is newer than that, one that a generation still runs, or the one that ` +
				`a rollback would go to. The default is that all are kept.`,
		},
	}
}

// hookKeys are the keys of the commands that are run at certain points.
func hookKeys() []Key {
	const surroundings = ` It has the service's environment, user and directory, with ZDD_NAME, ZDD_HANDOFF, ZDD_GENERATION, ZDD_RELEASE, ` +
		`ZDD_PREVIOUS_GENERATION and ZDD_PREVIOUS_RELEASE.`
	return []Key{
		{
			Name: "hooks.before-cutover", Kind: Command, set: words(func(c *draft) *[]string { return &c.Hooks.BeforeCutover }),
			Doc: `A command that is run when a new generation is ready, and was probed, before any client gets to it. If it fails, the handoff does.` + surroundings,
		},
		{
			Name: "hooks.after-live", Kind: Command, set: words(func(c *draft) *[]string { return &c.Hooks.AfterLive }),
			Doc: `A command that is run when a new generation is live. Whoever has asked for the handoff gets the answer when it has ended. ` +
				`If it fails, that is told, and nothing else changes.` + surroundings,
		},
		{
			Name: "hooks.after-gone", Kind: Command, set: words(func(c *draft) *[]string { return &c.Hooks.AfterGone }),
			Doc: `A command that is run when no process of a generation is left, which is then in ZDD_GENERATION. ` +
				`It is not run when the supervisor stops. If it fails, that is told, and nothing else changes.` + surroundings,
		},
		{
			Name: "hooks.timeout", Kind: Duration, Default: "30s", set: duration(func(c *draft) *time.Duration { return &c.Hooks.Timeout }, 1),
			Doc: `How long each of the hooks may take.`,
		},
	}
}
