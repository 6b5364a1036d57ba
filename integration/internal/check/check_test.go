package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// events writes lines of "go test -json" with words as their action, test and output, all of one package.
func events(lines ...[3]string) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, `{"Action":%q,"Package":"p","Test":%q,"Output":%q}`+"\n", l[0], l[1], l[2])
	}
	return b.String()
}

func TestReadEvents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		in              string
		passed          int
		failed, skipped string
	}{
		"pass and skip": {events(
			[3]string{"run", "TestA"}, [3]string{"pass", "TestA"},
			[3]string{"run", "TestB"}, [3]string{"output", "TestB", "    b_test.go:3: needs root: really\n"},
			[3]string{"skip", "TestB"}, [3]string{"pass"},
		), 1, "", "[{p TestB needs root: really}]"},
		"a parent does not count": {events(
			[3]string{"run", "TestA"}, [3]string{"run", "TestA/one"}, [3]string{"run", "TestA/one/x"}, [3]string{"run", "TestA/two"},
			[3]string{"fail", "TestA/one/x"}, [3]string{"fail", "TestA/one"}, [3]string{"pass", "TestA/two"}, [3]string{"fail", "TestA"}, [3]string{"fail"},
		), 1, "[p TestA/one/x]", ""},
		"a parent that fails by itself": {events(
			[3]string{"run", "TestA"}, [3]string{"run", "TestA/one"}, [3]string{"pass", "TestA/one"}, [3]string{"fail", "TestA"}, [3]string{"fail"},
		), 1, "[p TestA]", ""},
		"a package that fails by itself": {events(
			[3]string{"run", "TestA"}, [3]string{"pass", "TestA"}, [3]string{"output", "", "panic: test timed out"}, [3]string{"fail"},
		), 1, "[p]", ""},
		"no tests": {events([3]string{"skip"}), 0, "", ""},
		"build": {`{"ImportPath":"p","Action":"build-output","Output":"a.go:1:1: syntax error\n"}` +
			`{"ImportPath":"p","Action":"build-fail"}` + events([3]string{"fail"}), 0, "[build of p]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r report
			if err := readEvents(strings.NewReader(tt.in), &bytes.Buffer{}, &r); err != nil {
				t.Fatal(err)
			}
			failed, skips := "", ""
			if len(r.failed) > 0 {
				failed = fmt.Sprint(r.failed)
			}
			if len(r.skips) > 0 {
				skips = fmt.Sprint(r.skips)
			}
			if r.passed != tt.passed || failed != tt.failed || skips != tt.skipped {
				t.Errorf("got %d passed, failed %s, skipped %s", r.passed, failed, skips)
			}
		})
	}
	if err := readEvents(strings.NewReader("not JSON"), &bytes.Buffer{}, &report{}); err == nil {
		t.Error("garbage was read")
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		report report
		strict bool
		want   int
	}{
		"good":              {report{passed: 2}, true, 0},
		"failed":            {report{passed: 2, failed: []string{"a"}}, false, 1},
		"skipped":           {report{passed: 2, skips: []skipped{{"a", "b"}}}, false, 0},
		"skipped in CI":     {report{passed: 2, skips: []skipped{{"a", "b"}}}, true, 1},
		"nothing was tried": {report{}, false, 1},
	} {
		var b bytes.Buffer
		if got := tt.report.end(&b, tt.strict); got != tt.want {
			t.Errorf("%s: exit status %d, want %d", name, got, tt.want)
		}
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		want := fmt.Sprintf("%d passed, %d failed, %d skipped", tt.report.passed, len(tt.report.failed), len(tt.report.skips))
		if last := lines[len(lines)-1]; last != want {
			t.Errorf("%s: the last line is %q", name, last)
		}
	}
}

func TestFuzzTargets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := "package x\n\nfunc FuzzOne(f *testing.F) {}\n\n// func FuzzNot(f *testing.F)\nfunc FuzzTwo(f *testing.F) {}\n"
	for _, name := range []string{"sub/a_test.go", "sub/a.go"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := fuzzTargets(dir)
	if want := "[{sub FuzzOne} {sub FuzzTwo}]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v, %v", got, err)
	}
}
