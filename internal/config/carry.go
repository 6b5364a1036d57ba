package config

import (
	"slices"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// KeepAlive is what becomes of kept-alive connections to an old generation.
type KeepAlive string

const (
	KeepAliveClose KeepAlive = "close" // the service closes them
	KeepAliveCarry KeepAlive = "carry" // they are carried over
)

const keepAliveKey = "handoff.keepalive"

// carryKeys are the keys of carrying connections over.
func carryKeys() []Key {
	return []Key{
		{
			Name: keepAliveKey, Kind: Text, Default: string(KeepAliveClose),
			set: choice(func(c *draft) *KeepAlive { return &c.Handoff.KeepAlive }, KeepAliveClose, KeepAliveCarry),
			Doc: `What becomes of kept-alive connections to an old generation, "close" or "carry". With "close" the service closes them, and a request ` +
				`that comes at that moment is lost. With "carry" the next request on each goes to the new generation. ` +
				`It is for steered sockets with protocol = "http/1"; docs/carry.md has what it takes.`,
		},
		{
			Name: "handoff.carry-wait", Kind: Duration, Default: "250ms", set: duration(func(c *draft) *time.Duration { return &c.Handoff.CarryWait }, 1),
			Doc: `How long an ordinary request takes at most. Before drain.signal, so long kept-alive connections are watched, and then up to four times as long those are ` +
				`parked and waited for on which requests come and go. Those that do not come between two requests are left to the old generation.`,
		},
		{
			Name: "handoff.carry-idle", Kind: Duration, Default: "5s", set: duration(func(c *draft) *time.Duration { return &c.Handoff.CarryIdle }, 1),
			Doc: `How long a connection that was carried over is kept open for its next request.`,
		},
		{
			Name: "handoff.carry-relays", Kind: Number, Default: "256", set: number(func(c *draft) *int { return &c.Handoff.CarryRelays }, 1, 65536),
			Doc: `How many requests of connections that were carried over are passed on at the same time. Others wait.`,
		},
	}
}

// checkCarry refuses to carry over where no socket says that it can be done, and
// limits of what is not done.
func (l *loader) checkCarry() {
	if l.draft.Handoff.KeepAlive == KeepAliveCarry {
		carries := func(s fdpass.Spec) bool { return s.Protocol == fdpass.HTTP1 && s.Steerable() }
		if l.whole && !slices.ContainsFunc(l.draft.Sockets, carries) {
			l.reportKey(keepAliveKey, `is %q, which needs a socket with protocol = %q that can be steered, and there is none`, KeepAliveCarry, fdpass.HTTP1)
		}
		return
	}
	for _, key := range l.keys {
		if at, given := l.places[key.Name]; given && strings.HasPrefix(key.Name, "handoff.carry-") {
			l.report(at, key.Name, "is only for %s = %q", keepAliveKey, KeepAliveCarry)
		}
	}
}
