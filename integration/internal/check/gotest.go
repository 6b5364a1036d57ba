package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// measures tells whether a package's tests look at times and at what gets lost under load. They have the machine for themselves.
func measures(pkg string) bool {
	const integration = "github.com/zddsupervisor/zddsupervisor/integration"
	return pkg == integration || strings.HasPrefix(pkg, integration+"/") && !strings.HasPrefix(pkg, integration+"/internal/")
}

func tests(ctx context.Context, r *report) {
	if race(ctx) == nil {
		r.skip("race detector", "needs cgo and a C compiler; the tests run without it")
	}
	testPackages(ctx, r, func(pkg string) bool { return !measures(pkg) })
}

func integrationTests(ctx context.Context, r *report) {
	testPackages(ctx, r, measures, "-p=1", "-timeout=40m")
}

// testPackages runs "go test" with these arguments for all packages of the module that are wanted.
func testPackages(ctx context.Context, r *report, wanted func(pkg string) bool, args ...string) {
	list, err := command(ctx, "go", "list", "./...")
	if err != nil {
		r.fail("go list", list)
		return
	}
	goTest(ctx, r, append(args, slices.DeleteFunc(strings.Fields(list), func(pkg string) bool { return !wanted(pkg) })...)...)
}

// race is the flag for the race detector, or nil where it cannot be used.
func race(ctx context.Context) []string {
	cc, err := command(ctx, "go", "env", "CGO_ENABLED", "CC")
	enabled, cc, _ := strings.Cut(cc, "\n")
	if err != nil || enabled != "1" || cc == "" {
		return nil
	}
	if _, err := exec.LookPath(strings.Fields(cc)[0]); err != nil {
		return nil
	}
	return []string{"-race"}
}

// goTest runs "go test" and reports each test.
func goTest(ctx context.Context, r *report, args ...string) {
	args = append(append([]string{"test", "-json", "-count=1"}, race(ctx)...), args...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		r.fail("go test", err.Error())
		return
	}
	before := len(r.failed)
	err = readEvents(out, os.Stdout, r)
	if _, copyErr := io.Copy(io.Discard, out); err == nil {
		err = copyErr
	}
	waitErr := cmd.Wait()
	if err == nil && len(r.failed) == before {
		err = waitErr // a failure that no event told of
	}
	if err != nil {
		r.fail("go test", err.Error())
	}
}

// event is what "go test -json" says, see go doc test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
}

// readEvents reports the tests whose events it reads, and writes a line for each package and the output of what failed. Only the
// innermost tests count: one that has subtests counts by itself only if it fails and none of them did.
func readEvents(in io.Reader, w io.Writer, r *report) error {
	type key struct{ pkg, test string }
	output := map[key]*strings.Builder{}
	parents := map[key]bool{}
	failedBelow := map[key]bool{}
	failed := func(k key) {
		for {
			failedBelow[k] = true
			i := strings.LastIndex(k.test, "/")
			if k.test == "" {
				return
			}
			k.test = k.test[:max(i, 0)]
		}
	}
	dec := json.NewDecoder(in)
	for {
		var e event
		if err := dec.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read what go test says: %w", err)
		}
		k := key{e.Package, e.Test}
		text := output[k]
		if text == nil {
			text = &strings.Builder{}
			output[k] = text
		}
		name := strings.TrimPrefix(e.Package, "github.com/zddsupervisor/zddsupervisor/")
		if e.Test != "" {
			name += " " + e.Test
		}
		switch e.Action {
		case "build-output":
			fmt.Fprint(w, e.Output)
		case "build-fail":
			r.fail("build of "+e.ImportPath, "")
			failed(key{e.ImportPath, ""})
		case "run":
			if i := strings.LastIndex(e.Test, "/"); i >= 0 {
				parents[key{e.Package, e.Test[:i]}] = true
			}
		case "output":
			text.WriteString(e.Output)
		case "pass":
			if e.Test == "" {
				fmt.Fprintf(w, "ok      %s (%.1fs)\n", name, e.Elapsed)
			} else if !parents[k] {
				r.pass(name)
				r.time(name, time.Duration(e.Elapsed*float64(time.Second)))
			}
		case "skip":
			if e.Test != "" {
				r.skip(name, reason(text.String()))
			} // a package without tests
		case "fail":
			fmt.Fprint(w, text)
			if e.Test == "" {
				fmt.Fprintf(w, "FAIL    %s (%.1fs)\n", name, e.Elapsed)
			}
			// A package fails because its tests do, or by itself, for example when it runs out of time.
			if !failedBelow[k] {
				r.fail(name, "")
				failed(k)
			}
		}
		if e.Action == "pass" || e.Action == "skip" || e.Action == "fail" {
			delete(output, k)
		}
	}
}

// reason finds in the output of a skipped test why it was skipped.
func reason(output string) string {
	var why []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") {
			continue
		}
		// "file_test.go:12: the reason"
		if place, text, ok := strings.Cut(line, ": "); ok && strings.Contains(place, ".go:") {
			line = text
		}
		why = append(why, line)
	}
	if len(why) == 0 {
		return "no reason given"
	}
	return strings.Join(why, " ")
}
