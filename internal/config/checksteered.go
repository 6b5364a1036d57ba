package config

import (
	"slices"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/suggest"
)

// steerableForm says what can be steered.
const steerableForm = `one on tcp without mode = "shared" and reuseport = true, or one of systemd with mode = "steered"`

// firstSteered returns the name of the first socket that can be steered, or "".
func (l *loader) firstSteered() string {
	i := slices.IndexFunc(l.draft.Sockets, fdpass.Spec.Steerable)
	if i < 0 {
		return ""
	}
	return l.draft.Sockets[i].Name
}

// completeProbe fills in the socket that is asked.
func (l *loader) completeProbe() {
	p := &l.draft.Probe
	if p.Path != "" && p.Socket == "" {
		p.Socket = l.firstSteered()
	}
}

// checkProbe refuses a probe without a socket for it, and keys of a probe that
// there is not.
func (l *loader) checkProbe() {
	const table, pathKey = "probe.", "probe.path"
	p := l.draft.Probe
	if p.Path != "" {
		l.checkAsked(p.Socket, "probe.socket", pathKey, "needs")
	}
	if _, wanted := l.places[pathKey]; wanted {
		return
	}
	for _, key := range l.keys {
		if at, given := l.places[key.Name]; given && strings.HasPrefix(key.Name, table) {
			l.report(at, key.Name, "is only for a probe, and there is no %s", pathKey)
		}
	}
}

// checkCanary refuses a canary that no socket can take part in.
func (l *loader) checkCanary() {
	if len(l.draft.Handoff.Canary) > 0 && l.firstSteered() == "" {
		l.reportUnsteered("handoff.canary", "needs")
	}
}

// checkAsked refuses a socket on which another generation than the new one may
// get the request. It is named by socketKey; "" stands for none that key, which
// needs it, could have by default.
func (l *loader) checkAsked(name, socketKey, key, needs string) {
	i := slices.IndexFunc(l.draft.Sockets, func(s fdpass.Spec) bool { return s.Name == name })
	switch {
	case name == "":
		l.reportUnsteered(key, needs)
	case !l.whole: // the names are not known
	case i < 0:
		names := make([]string, len(l.draft.Sockets))
		for i, s := range l.draft.Sockets {
			names[i] = s.Name
		}
		l.reportKey(socketKey, "there is no socket %q%s; %s", name, suggest.DidYouMean(name, names), thereAre(names))
	case !l.draft.Sockets[i].Steerable():
		l.reportKey(socketKey, "the socket %q cannot be steered, so that the old generation may get the request; name %s", name, steerableForm)
	}
}

// reportUnsteered reports that key needs a socket that can be steered. With
// something wrong about the sockets it is not known whether there is one.
func (l *loader) reportUnsteered(key, needs string) {
	if l.whole {
		l.reportKey(key, "%s a socket that can be steered, and there is none; add %s", needs, steerableForm)
	}
}
