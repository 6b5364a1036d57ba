package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/zddsupervisor/zddsupervisor/internal/drill"
)

// drillProgress shows how far a drill is: in one line that changes on a terminal, else in a line for each phase.
type drillProgress struct {
	out      io.Writer
	width    int
	terminal bool
	phase    string
	shown    bool
}

func newDrillProgress(out io.Writer) *drillProgress {
	p := &drillProgress{out: out}
	p.width, p.terminal = terminalWidth(out)
	return p
}

func (p *drillProgress) show(now drill.Progress) {
	if !p.terminal && now.Phase == p.phase {
		return
	}
	p.phase = now.Phase
	line := fmt.Sprintf("%5.1fs  %s: %d requests, %d failed, %d under way", now.Elapsed.Seconds(), now.Phase, now.Done, now.Failed, now.InFlight)
	if now.Worst > 0 {
		line += fmt.Sprintf(", p50 %s, slowest %s", round(now.P50), round(now.Worst))
	}
	if len(now.Answered) > 0 {
		line += "  [" + strings.Join(now.Answered, " | ") + "]"
	}
	if !p.terminal {
		fmt.Fprintln(p.out, line)
		return
	}
	p.shown = true
	for utf8.RuneCountInString(line) >= p.width {
		_, size := utf8.DecodeLastRuneInString(line)
		line = line[:len(line)-size]
	}
	fmt.Fprint(p.out, "\r\x1b[K"+line)
}

// end clears the line.
func (p *drillProgress) end() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
