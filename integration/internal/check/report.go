package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"
)

// report counts what was run. The zero value is empty.
type report struct {
	passed int
	failed []string
	skips  []skipped
	slow   []timed
}

// timed is how long a test took, with those below it.
type timed struct {
	name string
	took time.Duration
}

// The slowest are named, so that the whole stays short.
const (
	slow        = 30 * time.Second
	slowestMost = 15
)

// skipped is a check that was not made.
type skipped struct{ name, why string }

func (r *report) pass(string) { r.passed++ }

func (r *report) fail(name, why string) {
	if why != "" {
		why = ": " + why
	}
	r.failed = append(r.failed, name+why)
}

// time notes how long a test took, if that is worth a line.
func (r *report) time(name string, took time.Duration) {
	if took >= slow {
		r.slow = append(r.slow, timed{name, took})
	}
}

func (r *report) skip(name, why string) { r.skips = append(r.skips, skipped{name, why}) }

// end writes what failed and what was skipped, and the counts as the last line. It returns the exit status; strictly, a skip is a failure.
func (r *report) end(w io.Writer, strict bool) int {
	slices.SortFunc(r.slow, func(a, b timed) int { return cmp.Compare(b.took, a.took) })
	for _, t := range r.slow[:min(len(r.slow), slowestMost)] {
		fmt.Fprintf(w, "slow: %s took %s\n", t.name, t.took.Round(time.Second))
	}
	for _, name := range r.failed {
		fmt.Fprintf(w, "failed: %s\n", name)
	}
	for _, s := range r.skips {
		fmt.Fprintf(w, "skipped: %s: %s\n", s.name, s.why)
	}
	status := 0
	if len(r.failed) > 0 {
		status = 1
	}
	if strict && len(r.skips) > 0 {
		fmt.Fprintln(w, "nothing may be skipped in CI")
		status = 1
	}
	if r.passed+len(r.failed) == 0 {
		fmt.Fprintln(w, "nothing was run")
		status = 1
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", r.passed, len(r.failed), len(r.skips))
	return status
}
