package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/history"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// Exit statuses are what the help says of them.
func TestExitStatus(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want int
	}{
		{nil, exitDone},
		{&upgrade.HandoffError{}, exitFailed},
		{fmt.Errorf("%w: no handoff is under way", control.ErrNothing), exitFailed},
		{fmt.Errorf("%w on /x: %w", control.ErrRefused, upgrade.ErrStopping), exitFailed},
		{errors.New("anything else"), exitFailed},
		{usageError{errors.New("wrong")}, exitUsage},
		{fmt.Errorf("%w (a, b)", control.ErrAmbiguous), exitUsage},
		{fmt.Errorf("%w on /x", control.ErrNotRunning), exitNotRunning},
		{fmt.Errorf("%w: uid 5 may not", control.ErrRefused), exitNotRunning},
	} {
		var stderr bytes.Buffer
		if got := report(tc.err, &stderr); got != tc.want || (stderr.Len() == 0) != (tc.err == nil) {
			t.Errorf("%v: exit status %d, want %d; %q", tc.err, got, tc.want, stderr.String())
		}
	}
}

// oneCommand runs one command line in this process.
func oneCommand(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = run(t.Context(), args, &out, &errs)
	return status, out.String(), errs.String()
}

// What a terminal would obey reaches none, whoever has written it.
func TestNoControlCharacters(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	report(errors.New("a\x1b[2J\u009bb\nc\x7f"), &out)
	entry := history.Entry{}
	entry.Reason, entry.ToRelease, entry.By = "x\x1b]0;y\x07", "v\x1b1", []string{"root\u0085"}
	printHistory(&out, []history.Entry{entry})
	newProgress(&out).done(&upgrade.Record{ToRelease: "v\x1b2", Hooks: []upgrade.HookResult{{Error: "h\x1b"}}})
	for _, r := range out.String() {
		if r != '\n' && unicode.IsControl(r) {
			t.Fatalf("%q", out.String())
		}
	}
	if !strings.HasPrefix(out.String(), "zddsupervisor: a [2J b\nzddsupervisor: c \n") {
		t.Errorf("%q", out.String())
	}
}

func TestHelpTellsExitStatuses(t *testing.T) {
	t.Parallel()
	status, stdout, _ := oneCommand(t, "--help")
	text := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{"0 done", "1 not done, and nothing has changed", "nothing to do (promote, abort)", "the supervisor is stopping", "2 wrong usage", "3 no supervisor was reached"} {
		if !strings.Contains(text, want) {
			t.Errorf("the help does not say %q", want)
		}
	}
	if status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// A name is a part of a path, and no way out of the directory.
func TestNameIsChecked(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"status", "reload", "promote", "abort", "upgrade", "doctor"} {
		status, _, stderr := oneCommand(t, command, "--name", "../../x")
		if status != exitUsage || !strings.Contains(stderr, `not a usable name: "../../x"`) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit status %d: %s", command, status, stderr)
		}
	}
}

// TestPresetCommand has each preset in the list, and prints it as it is.
func TestPresetCommand(t *testing.T) {
	t.Parallel()
	status, list, stderr := oneCommand(t, "preset")
	if status != exitDone || stderr != "" {
		t.Fatalf("exit status %d: %s", status, stderr)
	}
	lines := strings.Split(strings.TrimSpace(list), "\n")
	for i, p := range config.Presets() {
		if i >= len(lines) || !strings.HasPrefix(lines[i], p.Name+" ") || !strings.HasSuffix(lines[i], p.Doc) {
			t.Errorf("the list does not have %s:\n%s", p.Name, list)
		}
		if status, text, stderr := oneCommand(t, "preset", p.Name); status != exitDone || text != p.Text || stderr != "" {
			t.Errorf("%s: exit status %d, %q, %q", p.Name, status, text, stderr)
		}
	}
}
