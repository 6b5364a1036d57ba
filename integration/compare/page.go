package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/drill"
)

// notMeasured is what a cell says that has no figure.
const notMeasured = "not measured"

// writePage writes the table of medians and ranges, with the date and the machine.
func writePage(w io.Writer, remark string, all []way, results [][]measured) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# Ways to deploy, compared

<!-- Made by: go run ./integration/compare --write docs/comparison.md -->

The same service (Go's net/http, %s of start-up, Shutdown on SIGTERM), handed off %d times in each round by each way, under %d
requests a second, half of them on new and half on kept-alive connections, judged by `+"`zddsupervisor drill`"+`. Each way had its turn in each of %d
rounds; a cell has the median of the rounds and, where they differ, the range. Measured on %s, on %s. %s

- failed: requests of one round that were not answered, on new and on kept-alive connections. None was sent twice.
- p99, p99.9: latency, from when a request was due, in the time of the handoffs, and in the calm time of the same run.
- throughput: requests a second on %d kept-alive connections that do not pause, and beside it the share of the bare service's.
- added memory: resident memory of the processes that are there for the sake of the way.
- to live: from the request to the first answer of the new version, less the service's own start-up.

| way | failed, new | failed, kept-alive | p99 disturbed / calm | p99.9 disturbed / calm | throughput | added memory | to live |
|---|---|---|---|---|---|---|---|
`, startUp, handoffs, rate, len(results[0]), time.Now().UTC().Format("2006-01-02"), thisMachine(), remark, fullWorkers)
	own, err := time.ParseDuration(startUp)
	if err != nil {
		return err
	}
	bare := middle(results[0], func(m measured) float64 { return m.throughput })
	for i, w := range all {
		rounds := results[i]
		cell := func(value func(measured) float64, unit string) string { return medianAndRange(rounds, value, unit) }
		latency := func(disturbed, calm func(measured) time.Duration) string {
			return cell(func(m measured) float64 { return millis(disturbed(m)) }, " ms") + " / " + cell(func(m measured) float64 { return millis(calm(m)) }, " ms")
		}
		memory := "none"
		if w.added != "" {
			memory = cell(func(m measured) float64 { return float64(m.resident) / 1024 }, " MiB")
		}
		live := notMeasured
		if !slices.ContainsFunc(rounds, func(m measured) bool { return len(m.toLive) == 0 }) {
			live = cell(func(m measured) float64 { return millis(median(m.toLive) - own) }, " ms")
		}
		share := middle(rounds, func(m measured) float64 { return m.throughput }) / bare * 100
		fmt.Fprintf(&b, "| %s | **%s** | **%s** | %s | %s | %s (%.0f %%) | %s | %s |\n", w.name,
			cell(func(m measured) float64 { return failed(m.report.New) }, ""), cell(func(m measured) float64 { return failed(m.report.Kept) }, ""),
			latency(func(m measured) time.Duration { return m.report.Disturbed.P99 }, func(m measured) time.Duration { return m.report.Calm.P99 }),
			latency(func(m measured) time.Duration { return m.report.Disturbed.P999 }, func(m measured) time.Duration { return m.report.Calm.P999 }),
			cell(func(m measured) float64 { return m.throughput }, ""), share, memory, live)
	}
	b.WriteString("\n")
	for i, w := range all {
		if kinds := kindsOf(results[i]); kinds != "" {
			fmt.Fprintf(&b, "- %s, failed in all rounds together: %s.\n", w.name, kinds)
		}
		if n := failedCold(results[i]); n > 0 {
			fmt.Fprintf(&b, "- %s: %d failed in the warm-up, which the table leaves out.\n", w.name, n)
		}
		if w.note != "" {
			fmt.Fprintf(&b, "- %s: %s.\n", w.name, w.note)
		}
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// failed is how many requests failed on one kind of connection, once the way was warm.
func failed(p drill.Pair) float64 { return float64(p.Calm.Failed + p.Disturbed.Failed) }

// failedCold is how many failed before that, in all rounds.
func failedCold(rounds []measured) (n int) {
	for _, m := range rounds {
		n += m.report.WarmUp.Failed
	}
	return n
}

// kindsOf is how requests failed, in all rounds.
func kindsOf(rounds []measured) string {
	kinds := map[string]int{}
	for _, m := range rounds {
		for _, k := range m.report.Kinds {
			kinds[k.Kind.String()] += k.Requests
		}
	}
	names := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int { return kinds[b] - kinds[a] })
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", kinds[name], name)
	}
	return strings.Join(names, ", ")
}

// medianAndRange is "median (least to most)".
func medianAndRange(rounds []measured, value func(measured) float64, unit string) string {
	values := make([]float64, 0, len(rounds))
	for _, m := range rounds {
		values = append(values, value(m))
	}
	slices.Sort(values)
	least, most := short(values[0]), short(values[len(values)-1])
	text := short(values[len(values)/2])
	if least != most {
		text += fmt.Sprintf(" (%s to %s)", least, most)
	}
	return text + unit
}

func middle(rounds []measured, value func(measured) float64) float64 {
	values := make([]float64, 0, len(rounds))
	for _, m := range rounds {
		values = append(values, value(m))
	}
	return median(values)
}

func median[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// short has three digits that count.
func short(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 2, 64), ".00")
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// thisMachine is what the figures depend on.
func thisMachine() string {
	name := "an unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%d cores of %s, Linux %s, %s, in a namespace with Debian 13 (systemd 257)", runtime.NumCPU(), name, bytes.TrimSpace(kernel), runtime.Version())
}
