package config

import (
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// startKeys are the keys of a new generation until clients get to it.
func startKeys() []Key {
	return []Key{
		{
			Name: "mode", Kind: Text, set: choice(func(c *draft) *fdpass.Mode { return &c.mode }, fdpass.Steered, fdpass.Shared),
			Doc: `How the generations share the sockets that do not say so themselves, "steered" or "shared". ` +
				`"steered": each generation has a kernel socket of its own, and a program in the kernel decides which one gets a new connection; ` +
				`it is for tcp only, and the other sockets stay shared. "shared": all generations inherit one socket, and whichever accepts first gets the connection. ` +
				`The default is "steered" for tcp and "shared" for the rest.`,
		},
		{
			Name: "check.command", Kind: Command, set: words(func(c *draft) *[]string { return &c.Check.Command }),
			Doc: `A command that is run before a new generation is started, such as "nginx -t". If it fails, nothing is started.`,
		},
		{
			Name: "check.timeout", Kind: Duration, Default: "30s", set: duration(func(c *draft) *time.Duration { return &c.Check.Timeout }, 1),
			Doc: `How long the check may take.`,
		},
		{
			Name: "ready.by", Kind: Text, Default: string(ByNotify), set: choice(func(c *draft) *ReadyBy { return &c.Ready.By }, ByNotify, ByFD, ByHTTP, ByAccept, ByExec, ByEinhorn, ByDelay),
			Doc: `How a new generation shows that it is ready: "notify", "fd", "http", "accept", "exec", "einhorn" or "delay". ` +
				`"notify": it sends READY=1 to NOTIFY_SOCKET. "fd": it writes a newline to the descriptor {fd:ready}. ` +
				`"http": it answers a GET of ready.path with a status of 2xx or 3xx. "accept": it accepts a connection. ` +
				`Both come through the service's real address, in a way that only the new generation gets them, and so need a socket that can be steered. ` +
				`"exec": ready.command succeeds. "einhorn": it sends einhorn's worker:ack to EINHORN_SOCK_PATH. "delay": ready.delay has passed, which is no more than a guess.`,
		},
		{
			Name: "ready.timeout", Kind: Duration, Default: "90s", set: duration(func(c *draft) *time.Duration { return &c.Ready.Timeout }, 1),
			Doc: `How long a new generation may take to get ready. After that it is killed, and the old one stays.`,
		},
		{
			Name: "ready.fd", Kind: Number, set: number(func(c *draft) *int { return &c.Ready.FD }, 3, 1<<20),
			Doc: `The descriptor that the service writes to with ready.by = "fd", for a command line that must have it in digits. ` +
				`It is always the first one after the sockets: 3 plus their number.`,
		},
		{
			Name: "ready.path", Kind: Text, Default: "/", set: requestPath(func(c *draft) *string { return &c.Ready.Path }),
			Doc: `Path that ready.by = "http" asks for. It may have a query.`,
		},
		{
			Name: "ready.host", Kind: Text, set: requestHost(func(c *draft) *string { return &c.Ready.Host }),
			Doc: `Host header of the requests of ready.by = "http". The default is the socket's address.`,
		},
		{
			Name: "ready.socket", Kind: Text, set: text(func(c *draft) *string { return &c.Ready.Socket }),
			Doc: `Name of the socket on which ready.by = "http" or "accept" asks. The default is the first one that can be steered.`,
		},
		{
			Name: "ready.command", Kind: Command, set: words(func(c *draft) *[]string { return &c.Ready.Command }),
			Doc: `The command of ready.by = "exec". It is run again and again until it succeeds. It must not ask the service's own address: ` +
				`there the old version may answer, and ready.by = "http" asks the new one alone. Ask something that only the new one has, ` +
				`such as a file with {generation} in its name.`,
		},
		{
			Name: "ready.interval", Kind: Duration, set: duration(func(c *draft) *time.Duration { return &c.Ready.Interval }, 1),
			Doc: `How long to wait between two attempts of ready.by = "http", "accept" or "exec". ` +
				`The default is 100ms for "http" and "accept", and 1s for "exec".`,
		},
		{
			Name: "ready.delay", Kind: Duration, Default: "1s", set: duration(func(c *draft) *time.Duration { return &c.Ready.Delay }, 0),
			Doc: `How long ready.by = "delay" waits.`,
		},
		{
			Name: "probe.path", Kind: Text, set: requestPath(func(c *draft) *string { return &c.Probe.Path }),
			Doc: `Path of a request that a new generation must answer after it is ready, and before any client gets to it. ` +
				`It is a real GET through the service's address, in a way that only the new generation gets it, and so needs a socket that can be steered. ` +
				`It is sent again and again during canary and soak. If it fails, the handoff does, and the old generation serves on. It may have a query. ` +
				`The default is that there is no probe.`,
		},
		{
			Name: "probe.host", Kind: Text, set: requestHost(func(c *draft) *string { return &c.Probe.Host }),
			Doc: `Host header of the probe. The default is the socket's address.`,
		},
		{
			Name: "probe.status", Kind: Number, set: number(func(c *draft) *int { return &c.Probe.Status }, 100, 599),
			Doc: `Status that the probe must be answered with. The default is any of 2xx and 3xx.`,
		},
		{
			Name: "probe.count", Kind: Number, Default: "1", set: number(func(c *draft) *int { return &c.Probe.Count }, 1, 1000),
			Doc: `How many probes in a row must succeed before clients get to the new generation.`,
		},
		{
			Name: "probe.timeout", Kind: Duration, Default: "5s", set: duration(func(c *draft) *time.Duration { return &c.Probe.Timeout }, 1),
			Doc: `How long each request of the probe may take.`,
		},
		{
			Name: "probe.interval", Kind: Duration, Default: "1s", set: duration(func(c *draft) *time.Duration { return &c.Probe.Interval }, 1),
			Doc: `How long to wait between two probes during canary and soak.`,
		},
		{
			Name: "probe.socket", Kind: Text, set: text(func(c *draft) *string { return &c.Probe.Socket }),
			Doc: `Name of the socket that the probe asks. The default is the first one that can be steered.`,
		},
	}
}
