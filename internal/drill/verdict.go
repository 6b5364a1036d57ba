package drill

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Verdict judges a run.
type Verdict string

// The verdicts.
const (
	Clean        Verdict = "clean"        // every request was answered well, and none of them late for its sake
	Lost         Verdict = "lost"         // requests failed
	Masked       Verdict = "masked"       // none failed, but some were sent twice or held
	Inconclusive Verdict = "inconclusive" // the run could not have shown a loss
)

// tooLate is when the client was too late to say that it kept its rate.
const tooLate = 100 * time.Millisecond

// judge fills in the verdict and its reason. Failed requests are lost whatever else is the case, except where the client itself was at
// fault.
func (r *run) judge(rep *Report, interrupted string, parts map[bool]map[class]*sample) {
	say := func(v Verdict, format string, args ...any) {
		rep.Verdict, rep.Reason = v, fmt.Sprintf(format, args...)
	}
	local := 0
	for _, k := range rep.Kinds {
		if k.Kind == Local {
			local = k.Requests
		}
	}
	if failed := rep.All.Failed - local; failed > 0 {
		say(Lost, "%s of %s failed: %s%s", number(failed), count(rep.All.Requests, "request"), kindList(rep.Kinds), r.where(rep))
		return
	}
	if n := rep.ExecutedTwice; n > 0 {
		say(Masked, "nothing failed, but the service executed %s more than once", count(n, "request"))
		return
	}
	if local > 0 {
		say(Inconclusive, "the client could not send %s: %s", count(local, "request"), r.load.examples[Local])
		return
	}
	if rep.Late > rep.All.Requests/10 {
		say(Inconclusive, "%s of %s requests were sent more than %s late, since this machine is too busy; lower the rate", number(rep.Late), number(rep.All.Requests), tooLate)
		rep.Busy = true
		return
	}
	if interrupted != "" {
		say(Inconclusive, "%s; %d of %s had begun", interrupted, len(r.handoffs), count(r.config.Times, "handoff"))
		return
	}
	for _, h := range r.handoffs {
		switch {
		case h.Seen == "" && h.Error != "":
			say(Inconclusive, "no handoff happened in reload %d, which failed: %s", h.Number, lastLine(h.Error))
		case h.Seen == "" && r.config.Supervisor == nil && len(rep.Answered) == 0:
			say(Inconclusive, "nothing tells whether reload %d made a handoff: the answers name neither version nor pid; say where they do (--version-header, --version-body), or take the command's word with --trust-command", h.Number)
		case h.Seen == "" && r.config.Supervisor == nil:
			say(Inconclusive, "no handoff happened in reload %d: the same answered before and after it (a supervisor is asked that is named with --name or --control)", h.Number)
		case h.Seen == "":
			say(Inconclusive, "no handoff happened in reload %d: the same answered before and after it", h.Number)
		case h.Overlapped == 0:
			say(Inconclusive, "no request was under way in handoff %d; raise the rate", h.Number)
		case h.Error != "":
			say(Inconclusive, "reload %d failed, though who answers has changed: %s", h.Number, lastLine(h.Error))
		default:
			continue
		}
		return
	}
	var blind, busy []string
	for _, kept := range []bool{false, true} {
		part, name := parts[kept], "new"
		if kept {
			name = "kept-alive"
		}
		usual, tested := part[calm].served, part[disturbed].served
		if len(usual)+len(tested) == 0 {
			continue
		}
		if len(usual) < enoughCalm {
			say(Inconclusive, "only %s on %s connections fell into calm time, too few to compare with; raise the rate, --lead or --gap", count(len(usual), "request"), name)
			return
		}
		switch f := tail(usual, tested, r.config.Tolerate); {
		case f.masked != "":
			say(Masked, "nothing failed, but on %s connections %s", name, f.masked)
			return
		case f.busy != "":
			busy = append(busy, f.busy)
		case f.blind != "":
			blind = append(blind, f.blind)
		}
	}
	if len(busy) > 0 {
		say(Inconclusive, "nothing failed, but this machine is too busy to tell more: %s; run it again when less else runs here", busy[0])
		rep.Busy = true
		return
	}
	if why := rep.executedUnknown; why != "" {
		say(Inconclusive, "nothing failed, but what the service executed is not known: %s", why)
		return
	}
	least := r.handoffs[0].Overlapped
	for _, h := range r.handoffs {
		least = min(least, h.Overlapped)
	}
	say(Clean, "%s answered through %s, at least %s under way in each", count(rep.All.Requests, "request"), count(len(r.handoffs), "handoff"), number(least))
	if len(blind) > 0 && !rep.ExecutedKnown {
		rep.Notes = append(rep.Notes, blind[0]+"; let the service report what it executes (--executed) to be sure")
	}
}

// where tells how the failures lie to the handoffs.
func (r *run) where(rep *Report) string {
	outside := rep.Calm.Failed + rep.WarmUp.Failed
	switch {
	case len(r.handoffs) == 0:
		return "; no handoff had been made"
	case outside == 0:
		return "; all in the time of a handoff"
	case outside == rep.All.Failed:
		return "; none in the time of a handoff"
	}
	return fmt.Sprintf("; %s of them in the time of a handoff", number(rep.All.Failed-outside))
}

func kindList(kinds []KindCount) string {
	var list []string
	for _, k := range kinds {
		if k.Kind != Local {
			list = append(list, fmt.Sprintf("%s %s", number(k.Requests), k.Kind))
		}
	}
	return strings.Join(list, ", ")
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return printable(text[strings.LastIndexByte(text, '\n')+1:])
}

// printable is what somebody else says without what would control a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
