package drill

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the report for a person. With color it is for a terminal that has colors.
func (rep *Report) WriteText(w io.Writer, color bool) error {
	var b strings.Builder
	paint := func(code, text string) string {
		if !color {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	verdictColor := map[Verdict]string{Clean: "1;32", Lost: "1;31", Masked: "1;33", Inconclusive: "1;36"}[rep.Verdict]
	fmt.Fprintf(&b, "%s: %s\n\n", paint(verdictColor, string(rep.Verdict)), rep.Reason)
	fmt.Fprintf(&b, "%s at %s, %s, %g requests a second for %s\n\n", rep.URL, rep.Address, rep.Protocol, rep.Rate, round(rep.Took))
	b.WriteString(rep.table())
	b.WriteString("\n" + rep.chart(paint) + "\n")
	for _, h := range rep.Handoffs {
		fmt.Fprintf(&b, "handoff %d  %s\n", h.Number, h.describe())
	}
	for _, k := range rep.Kinds {
		fmt.Fprintf(&b, "failed: %s %s (first: %s)\n", number(k.Requests), k.Kind, k.Example)
	}
	for _, line := range rep.remarks() {
		b.WriteString(line + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// remarks is what else there is to tell, one line each.
func (rep *Report) remarks() []string {
	var lines []string
	if rep.ExecutedKnown {
		lines = append(lines, "executed more than once, as the service reports: "+count(rep.ExecutedTwice, "request"))
	}
	if n := rep.IdleEnded; n > 0 {
		lines = append(lines, count(n, "kept-alive connection")+" ended by the service between two requests, which is no failure")
	}
	if n := rep.Late; n > 0 {
		lines = append(lines, fmt.Sprintf("%s sent more than %s late, since this machine was busy", count(n, "request"), tooLate))
	}
	for _, n := range rep.Notes {
		lines = append(lines, "note: "+n)
	}
	return lines
}

// table compares calm and disturbed time.
func (rep *Report) table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\trequests\tfailed\tp50\tp99\tp99.9\tmax\t")
	row := func(name string, s Stats) {
		if s.Requests == 0 {
			return
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", name, number(s.Requests), number(s.Failed), round(s.P50), round(s.P99), round(s.P999), round(s.Max))
	}
	row("calm", rep.Calm)
	row("disturbed", rep.Disturbed)
	if rep.Kept.Calm.Requests > 0 && rep.New.Calm.Requests > 0 {
		row("new, calm", rep.New.Calm)
		row("disturbed", rep.New.Disturbed)
		row("kept-alive, calm", rep.Kept.Calm)
		row("disturbed", rep.Kept.Disturbed)
	}
	w.Flush()
	return b.String()
}

// describe tells of a handoff in one line.
func (h *Handoff) describe() string {
	var parts []string
	switch h.Seen {
	case "":
		parts = append(parts, "not seen")
	case seenSupervisor:
		parts = append(parts, "seen by the supervisor")
	case seenAnswers:
		parts = append(parts, "seen in the answers")
	case seenCommand:
		parts = append(parts, "taken from the command")
	}
	parts = append(parts, fmt.Sprintf("at %s, the command took %s, disturbed for %s, %s under way", round(h.From), round(h.Took), round(h.To-h.From), count(h.Overlapped, "request")))
	if len(h.New) > 0 {
		parts = append(parts, "new: "+someOf(h.New))
	}
	if len(h.Gone) > 0 {
		parts = append(parts, "gone: "+someOf(h.Gone))
	}
	if h.Error != "" {
		parts = append(parts, "failed: "+lastLine(h.Error))
	}
	return strings.Join(parts, "; ")
}

// someOf lists the first few of many.
func someOf(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, " and ")
	}
	return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
}

// The chart's size in characters.
const (
	chartColumns = 72
	chartRows    = 8
)

// chart draws latency over time: each column is a part of the run, with its median, its slowest, and its failures.
func (rep *Report) chart(paint func(code, text string) string) string {
	columns := make([]chartColumn, chartColumns)
	width := max(rep.Took/chartColumns, 1)
	for i := range rep.Requests {
		q := &rep.Requests[i]
		c := &columns[min(max(int(q.Due/width), 0), chartColumns-1)]
		if q.Kind == OK {
			c.latency = append(c.latency, q.Latency())
		} else {
			c.failed++
		}
	}
	low, high := time.Duration(0), time.Duration(0)
	for i := range columns {
		columns[i].p50, columns[i].max = quantile(columns[i].latency, 0.5), quantile(columns[i].latency, 1)
		if p := columns[i].p50; p > 0 && (low == 0 || p < low) {
			low = p
		}
		high = max(high, columns[i].max)
	}
	if high == 0 {
		return "no request was answered\n"
	}
	scale := newLogScale(low, high)
	var b strings.Builder
	for row := chartRows - 1; row >= 0; row-- {
		fmt.Fprintf(&b, "%8s ", round(scale.value(float64(row)/(chartRows-1))))
		b.WriteString(paint("2", "│"))
		for i := range columns {
			c := &columns[i]
			if len(c.latency) == 0 {
				b.WriteString(" ")
				continue
			}
			mid, top := scale.row(c.p50), scale.row(c.max)
			switch {
			case row == mid:
				b.WriteString(paint("36", "•"))
			case row == top:
				b.WriteString(paint("36", "╷"))
			case row > mid && row < top:
				b.WriteString(paint("36", "│"))
			default:
				b.WriteString(" ")
			}
		}
		b.WriteString("\n")
	}
	line := func(name string, mark func(i int) string) {
		var marks strings.Builder
		for i := range columns {
			marks.WriteString(mark(i))
		}
		fmt.Fprintf(&b, "%8s %s%s\n", name, paint("2", "│"), strings.TrimRight(marks.String(), " "))
	}
	if rep.All.Failed > 0 {
		line("failed", func(i int) string {
			if columns[i].failed > 0 {
				return paint("31", "✗")
			}
			return " "
		})
	}
	line("handoff", func(i int) string {
		from, to := time.Duration(i)*width, time.Duration(i+1)*width
		for _, h := range rep.Handoffs {
			switch {
			case h.From >= from && h.From < to:
				return paint("33", "▲")
			case h.From < to && h.To > from:
				return paint("33", "─")
			}
		}
		return " "
	})
	fmt.Fprintf(&b, "%8s  • median, │ up to the slowest, ▲ reload, ─ disturbed; %s a column\n", "", round(width))
	return b.String()
}

type chartColumn struct {
	latency  []time.Duration
	p50, max time.Duration
	failed   int
}
