package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A statusView makes the lines that show a status to a person.
type statusView struct {
	screen screen
	width  int // of the lines; 0 for as much as it takes
	now    time.Time
	st     *control.Status
	lines  []string
}

func (v *statusView) blank() { v.lines = append(v.lines, "") }

// text adds a text, in as many lines as it takes.
func (v *statusView) text(as style, text string) {
	for _, line := range wrap(text, v.width, 2) {
		v.lines = append(v.lines, v.screen.paint(line, as))
	}
}

func (v *statusView) table(t *table) { v.lines = append(v.lines, t.lines(v.screen, v.width)...) }

// ago says for how long something has been so.
func (v *statusView) ago(t time.Time) string { return lasted(v.now.Sub(t)) }

// state says how the service is.
func (v *statusView) state() {
	st := v.st
	live := liveOf(st)
	var shut []string
	for _, s := range st.Sockets {
		if s.ShutDown {
			shut = append(shut, s.Name)
		}
	}
	switch {
	case st.Phase == upgrade.Stopping.String() || st.Phase == upgrade.Stopped.String():
		v.text(yellow, st.Name+" is stopping")
	case live != nil && len(shut) > 0:
		v.text(red, fmt.Sprintf("%s is live, generation %d%s since %s, but NOBODY CAN CONNECT to %s", st.Name, live.Number, inParentheses(live.Release),
			v.ago(servesSince(live)), strings.Join(shut, ", ")))
	case live != nil:
		v.text(green, fmt.Sprintf("%s is live: generation %d%s since %s", st.Name, live.Number, inParentheses(live.Release), v.ago(servesSince(live))))
	case st.Down == "":
		v.text(yellow, st.Name+" is starting")
	default:
		v.text(red, fmt.Sprintf("%s is DOWN: %s", st.Name, st.Down))
	}
	if st.Retry != nil {
		when := "now"
		if left := st.Retry.Sub(v.now); left > 0 {
			when = "in " + lasted(left)
		}
		v.text(yellow, "it is started again "+when+"; clients wait")
	}
	v.text(faint, fmt.Sprintf("supervisor process %d, up %s, version %s", st.PID, v.ago(st.Since), dash(st.Program)))
}

// servesSince is from when on a generation has been live, or else ready or there at all.
func servesSince(g *upgrade.GenerationStatus) time.Time {
	switch {
	case g.Live != nil:
		return *g.Live
	case g.Ready != nil:
		return *g.Ready
	}
	return g.Started
}

// underWay says what the handoff that runs is doing.
func (v *statusView) underWay() {
	st := v.st
	if c := st.Current; c != nil {
		text := fmt.Sprintf("handoff %d", c.Handoff)
		if c.Restart {
			text = fmt.Sprintf("start %d", c.Handoff)
		}
		if c.To != 0 {
			text += fmt.Sprintf(" to generation %d%s", c.To, inParentheses(c.ToRelease))
		}
		text += ", " + v.ago(c.Began) + " old, is at step " + st.Phase
		if st.Step != nil {
			text += " for " + v.ago(st.Step.Began)
		}
		switch {
		case st.Note != "":
			text += ": " + st.Note
		case st.Step != nil && st.Step.Waits != "":
			text += ": waits for " + st.Step.Waits
		}
		v.text(bold, text)
	}
	if st.Phase == upgrade.Replacing.String() {
		v.text(yellow, "another supervisor is taking the service over")
	}
	if st.Waiting {
		v.text(plain, "one more handoff follows it")
	}
}

func (v *statusView) generations() {
	if len(v.st.Generations) == 0 {
		return
	}
	v.blank()
	t := head("GEN", "RELEASE", "ROLE", "PID", "PROCESSES", "CONNS", "AGE", "STATUS")
	for _, g := range v.st.Generations {
		as, words := plain, g.Status
		switch g.Role {
		case upgrade.RoleLive:
			as = green
		case upgrade.RoleFailed, upgrade.RoleCrashed:
			as = red
		case upgrade.RoleNew, upgrade.RoleDraining:
			as = yellow
		}
		switch {
		case g.Ending != nil:
			words = timeLeft(g.Ending, v.now) + "; " + g.Because
		case len(g.Deaf) > 0:
			as, words = red, "nobody gets to it by "+strings.Join(g.Deaf, ", ")+", which it has shut down"
		}
		t.add(cell{strconv.Itoa(g.Number), plain}, cell{dash(g.Release), plain}, cell{string(g.Role), as}, cell{strconv.Itoa(g.PID), plain},
			cell{number(g.Processes), plain}, cell{number(g.Connections), plain}, cell{v.ago(g.Started), plain}, cell{words, plain})
	}
	v.table(t)
}

// timeLeft says what becomes of a generation that is being ended, and when.
func timeLeft(e *upgrade.EndingStatus, now time.Time) string {
	left := lasted(max(0, e.Limit.Sub(now)))
	if e.Told {
		return "killed in " + left
	}
	return "not told to stop yet, killed in " + left
}

// connectionsLeft is a number of connections in words.
func connectionsLeft(n int) string {
	switch {
	case n < 0:
		return "an unknown number of connections"
	case n == 1:
		return "1 connection"
	}
	return fmt.Sprintf("%d connections", n)
}

func (v *statusView) sockets() {
	if len(v.st.Sockets) == 0 {
		return
	}
	v.blank()
	t := head("SOCKET", "ADDRESS", "MODE", "QUEUE", "NEW CONNECTIONS GO TO")
	for _, s := range v.st.Sockets {
		queue, as := queueOf(s)
		to, toAs := goTo(s, v.st.Generations), plain
		if s.ShutDown {
			to, toAs = "NOBODY: it was shut down", red
		}
		t.add(cell{s.Name, plain}, cell{s.Address, plain}, cell{string(s.Mode), plain}, cell{queue, as}, cell{to, toAs})
	}
	v.table(t)
	for _, s := range v.st.Sockets {
		var parts []string
		for _, p := range []struct {
			n    int
			what string
		}{
			{s.Forwarded, "passed on from a generation that did not accept"}, {s.Lost, "LOST on the way"},
			{s.Dropped, "dropped by the kernel"}, {s.Repaired, "times repaired"},
		} {
			if p.n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
			}
		}
		if len(parts) > 0 {
			v.text(yellow, fmt.Sprintf("socket %s: %s", s.Name, strings.Join(parts, ", ")))
		}
		if s.ShutDown {
			v.text(red, fmt.Sprintf("socket %s: a process of the service has called shutdown(2) on it; the live generation is replaced by itself, "+
				"and if this stays, the service does it again each time", s.Name))
		}
		if s.Error != "" {
			v.text(red, fmt.Sprintf("socket %s: %s", s.Name, s.Error))
		}
	}
}

// queueOf says what waits in a socket, and how many may.
func queueOf(s upgrade.SocketStatus) (text string, as style) {
	if s.Queue == 0 && s.QueueLimit == 0 { // for datagrams
		return number(s.Unread) + " bytes", plain
	}
	if s.Queue > 0 && s.QueueLimit > 0 && s.Queue >= s.QueueLimit {
		as = red
	}
	return number(s.Queue) + "/" + number(s.QueueLimit), as
}

// goTo says which generations get a socket's new connections.
func goTo(s upgrade.SocketStatus, generations []upgrade.GenerationStatus) string {
	const next = "wait for the next generation"
	accepts := func(number int) bool {
		for _, g := range generations {
			if g.Number == number {
				return g.Role != upgrade.RoleCrashed && g.Role != upgrade.RoleFailed
			}
		}
		return false
	}
	if s.Mode != fdpass.Steered {
		for _, g := range generations {
			if accepts(g.Number) {
				return "whoever accepts first"
			}
		}
		return next
	}
	var parts []string
	for _, seat := range s.Seats {
		switch {
		case seat.Share == 0:
		case !accepts(seat.Generation):
			parts = append(parts, next)
		case seat.Share == 1:
			parts = append(parts, fmt.Sprintf("generation %d", seat.Generation))
		default:
			parts = append(parts, fmt.Sprintf("generation %d (%.4g%%)", seat.Generation, seat.Share*100))
		}
	}
	return strings.Join(parts, ", ")
}

// last says how the last handoff ended.
func (v *statusView) last() {
	l := v.st.Last
	if l == nil {
		return
	}
	v.blank()
	what, as, by := "handoff", plain, ""
	if l.Restart {
		what = "start"
	}
	if l.Outcome != upgrade.OutcomeDone {
		as = red
	}
	if len(l.By) > 0 {
		by = ", asked for by " + strings.Join(l.By, ", ")
	}
	v.text(as, fmt.Sprintf("last %s: %d %s, %s ago, took %s%s", what, l.Handoff, l.Outcome, v.ago(l.Began.Add(l.Took)), round(l.Took), by))
	if c := l.Carried; c != nil {
		v.text(plain, fmt.Sprintf("  kept-alive connections: %d carried over, %d requests passed on, %d lost, %d left to the old generation",
			c.Carried, c.Relayed, c.Lost, c.Found()-c.Carried))
	}
	if why := v.st.Uncarried; why != "" {
		v.text(red, "  kept-alive connections are not carried over any more: "+why)
	}
	if l.Reason != "" {
		v.text(red, fmt.Sprintf("  at step %s: %s", l.Phase, l.Reason))
	}
}

// liveOf returns the live generation, or nil.
func liveOf(st *control.Status) *upgrade.GenerationStatus {
	for i := range st.Generations {
		if st.Generations[i].Role == upgrade.RoleLive {
			return &st.Generations[i]
		}
	}
	return nil
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// number prints a count, or that it is not known.
func number(n int) string {
	if n < 0 {
		return "?"
	}
	return strconv.Itoa(n)
}

// lasted shortens a time to what a person wants to know of it.
func lasted(d time.Duration) string {
	switch days := d / (24 * time.Hour); {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return d.Truncate(100 * time.Millisecond).String()
}
