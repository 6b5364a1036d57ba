package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// progress shows a handoff as it runs: a line for each step that has ended, and on a terminal one more, which is drawn again and
// again, for the step that runs: its time so far, and what it waits for. It owns a goroutine on a terminal; end ends it.
type progress struct {
	screen screen

	mu   sync.Mutex
	open *upgrade.Progress // the step that runs, or nil
	note string            // of that step
	at   time.Time         // when it began

	over    chan struct{} // closed by end
	ended   bool
	drawing sync.WaitGroup
}

// redrawInterval is the time between two drawings of the step that runs.
const redrawInterval = 100 * time.Millisecond

// newProgress shows a handoff on out. end must be called.
func newProgress(out io.Writer) *progress {
	p := &progress{screen: newScreen(out), over: make(chan struct{})}
	if p.screen.terminal {
		p.drawing.Add(1)
		go func() {
			defer p.drawing.Done()
			p.redraw()
		}()
	}
	return p
}

// redraw draws the step that runs until end.
func (p *progress) redraw() {
	tick := time.NewTicker(redrawInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.mu.Lock()
			p.drawLocked()
			p.mu.Unlock()
		case <-p.over:
			return
		}
	}
}

// step shows a step that has begun, goes on or has ended. It may be called from any goroutine.
func (p *progress) step(s upgrade.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case s.Waits != "":
		if p.open == nil || p.open.Step != s.Step || p.open.Handoff != s.Handoff {
			p.note = ""
		}
		p.open, p.at = &s, time.Now().Add(-s.Took)
		p.drawLocked()
	case s.Note != "":
		p.note = s.Note
		p.printLocked(fmt.Sprintf("%-8s ...     %s", s.Step, s.Note), plain)
	case s.Error != "":
		p.open = nil
		p.printLocked(fmt.Sprintf("%-8s %-7s %s", s.Step, "failed", round(s.Took)), red)
	default:
		p.open = nil
		p.printLocked(fmt.Sprintf("%-8s %-7s %s", s.Step, "ok", round(s.Took)), plain)
	}
}

// done shows what has changed, and is the end of it.
func (p *progress) done(r *upgrade.Record) {
	p.end()
	was := ""
	if r.From != 0 {
		was = fmt.Sprintf(", generation %d drains", r.From)
	}
	for _, o := range r.Unsettled {
		fmt.Fprintln(p.screen.out, fit(fmt.Sprintf("socket %s was not quiet in time: connections %s", o.Socket, o.Describe()), 0))
	}
	for _, h := range r.Hooks {
		if h.Error != "" {
			fmt.Fprintln(p.screen.out, fit(h.Error, 0))
		}
	}
	text := fmt.Sprintf("generation %d%s is live after %s%s", r.To, inParentheses(r.ToRelease), round(r.Took), was)
	fmt.Fprintln(p.screen.out, p.screen.paint(fit(text, 0), green))
}

// drains shows, on a terminal, what is left of the generation that was replaced. It asks the supervisor, and does without what it
// does not get.
func (p *progress) drains(ctx context.Context, client *control.Client, r *upgrade.Record) {
	if !p.screen.terminal || r.From == 0 {
		return
	}
	st, err := client.Status(ctx)
	if err != nil {
		return
	}
	for _, g := range st.Generations {
		if g.Number == r.From && g.Ending != nil {
			fmt.Fprintf(p.screen.out, "generation %d has %s left (%s); zddsupervisor status --watch shows it\n",
				g.Number, connectionsLeft(g.Connections), timeLeft(g.Ending, time.Now()))
		}
	}
}

// running returns the step that runs, and which handoff it belongs to; step is "" if that is not known.
func (p *progress) running() (handoff int, step string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		return 0, ""
	}
	return p.open.Handoff, p.open.Step
}

// end clears the line of the step that runs, and ends the goroutine. It may be called again.
func (p *progress) end() {
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return
	}
	p.ended = true
	p.clearLocked()
	p.mu.Unlock()
	close(p.over)
	p.drawing.Wait()
}

// printLocked prints a line that stays.
func (p *progress) printLocked(line string, as style) {
	p.clearLocked()
	fmt.Fprintln(p.screen.out, p.screen.paint(fit(line, 0), as))
	p.drawLocked()
}

// drawLocked draws the step that runs over what was there.
func (p *progress) drawLocked() {
	if !p.screen.terminal || p.open == nil || p.ended {
		return
	}
	width, _ := p.screen.size()
	what := "waits for " + p.open.Waits
	if p.note != "" {
		what = p.note
	}
	line := fmt.Sprintf("%-8s %-7s %s", p.open.Step, round(time.Since(p.at).Truncate(redrawInterval)), what)
	// Not the last column, in which some terminals break the line.
	fmt.Fprint(p.screen.out, "\r\x1b[K"+p.screen.paint(fit(line, max(1, width-1)), faint))
}

func (p *progress) clearLocked() {
	if p.screen.terminal {
		fmt.Fprint(p.screen.out, "\r\x1b[K")
	}
}
