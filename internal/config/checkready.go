package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// asks reports whether the supervisor itself asks the service on a socket.
func (r Ready) asks() bool { return r.By == ByHTTP || r.By == ByAccept }

// completeReady fills in what depends on ready.by.
func (l *loader) completeReady() {
	r := &l.draft.Ready
	if r.asks() && r.Socket == "" {
		r.Socket = l.firstSteered()
	}
	if r.Interval == 0 {
		r.Interval = time.Second // a command costs more than a request
		if r.asks() {
			r.Interval = 100 * time.Millisecond
		}
	}
}

// checkReady refuses keys of another way to get ready: most likely ready.by was
// forgotten. Only where it came from a flag the file may have them left over.
func (l *loader) checkReady() {
	r := l.draft.Ready
	by := l.places["ready.by"]
	for _, only := range []struct {
		key  string
		ways []ReadyBy
	}{
		{"ready.fd", []ReadyBy{ByFD}},
		{"ready.path", []ReadyBy{ByHTTP}},
		{"ready.host", []ReadyBy{ByHTTP}},
		{"ready.socket", []ReadyBy{ByHTTP, ByAccept}},
		{"ready.command", []ReadyBy{ByExec}},
		{"ready.interval", []ReadyBy{ByHTTP, ByAccept, ByExec}},
		{"ready.delay", []ReadyBy{ByDelay}},
	} {
		at, given := l.places[only.key]
		if given && !slices.Contains(only.ways, r.By) && (by.flag == "" || at.flag != "") {
			l.report(at, only.key, "is only for ready.by = %s, but that is %q", either(only.ways), r.By)
		}
	}
	if r.asks() {
		l.checkAsked(r.Socket, "ready.socket", "ready.by", fmt.Sprintf("is %q, which needs", r.By))
	}
	last := firstFD + inherited(l.draft.Sockets)
	switch {
	case r.By == ByExec && len(r.Command) == 0:
		l.reportKey("ready.by", "is %q, but there is no ready.command", r.By)
	case r.By == ByDelay && r.Delay >= r.Timeout:
		l.reportKey("ready.delay", "is %v, which is not within the ready.timeout of %v", r.Delay, r.Timeout)
	case r.By == ByFD && l.whole && r.FD != 0 && r.FD != last:
		l.reportKey("ready.fd", "is %d, but the first descriptor after the sockets is %d; leave it out and write {fd:%s} in the command", r.FD, last, readyFD)
	case r.By == ByFD && readyIsTaken(l.draft.Sockets):
		l.reportKey("ready.by", "is %q, for which {fd:%s} is needed; give the socket of that name another one", r.By, readyFD)
	}
}

// either returns the words for a sentence: "a", or "b".
func either(ways []ReadyBy) string {
	words := make([]string, len(ways))
	for i, way := range ways {
		words[i] = strconv.Quote(string(way))
	}
	return strings.Join(words, " or ")
}
