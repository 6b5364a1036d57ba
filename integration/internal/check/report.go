package main

import (
	"fmt"
	"io"
)

// report counts what was run. The zero value is empty.
type report struct {
	passed int
	failed []string
	skips  []skipped
}

// skipped is a check that was not made.
type skipped struct{ name, why string }

func (r *report) pass(string) { r.passed++ }

func (r *report) fail(name, why string) {
	if why != "" {
		why = ": " + why
	}
	r.failed = append(r.failed, name+why)
}

func (r *report) skip(name, why string) { r.skips = append(r.skips, skipped{name, why}) }

// end writes what failed and what was skipped, and the counts as the last line. It returns the exit status; strictly, a skip is a failure.
func (r *report) end(w io.Writer, strict bool) int {
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
