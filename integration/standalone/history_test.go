package standalone

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/history"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// historyOf returns what the history command says, as JSON.
func (s *supervisor) historyOf(args ...string) (entries []history.Entry) {
	s.t.Helper()
	status, stdout, stderr := command(s.t, append([]string{"history", "--json"}, args...)...)
	if status != 0 {
		s.t.Fatalf("exit status %d: %s", status, stderr)
	}
	for line := range strings.Lines(stdout) {
		var e history.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.t.Fatalf("%v: %s", err, line)
		}
		entries = append(entries, e)
	}
	return entries
}

// recorded waits until the history has a handoff that is as wanted.
func (s *supervisor) recorded(what string, ok func(history.Entry) bool) history.Entry {
	s.t.Helper()
	var found history.Entry
	s.eventually(what, func() bool {
		entries, _, err := history.Read(filepath.Join(s.dir, "state"))
		if err != nil {
			return false
		}
		for _, e := range entries {
			if ok(e) {
				found = e
				return true
			}
		}
		return false
	})
	return found
}

// Every handoff is there, with who asked, from what to what, each step, why it failed, and what had to be killed; for a person and as
// JSON, with and without a supervisor.
func TestHistory(t *testing.T) {
	t.Parallel()
	p := newSite(t, "v1", "v2")
	p.release("stubborn", "-ignore-term")
	p.release("bad", "-exit-after=0s", "-exit-status=3")
	s := start(t, p.configuration("[drain]\ntimeout = \"200ms\"\n"))
	state := filepath.Join(s.dir, "state")
	s.mustDeploy("deploy", "stubborn")
	s.mustDeploy("deploy", "v2")
	s.mustNotDeploy(1, nil, "deploy", "bad")
	s.runs("v2")
	s.signal(unix.SIGHUP)
	s.recorded("the reload", func(e history.Entry) bool { return e.Handoff == 5 })
	s.runs("v2")
	killed := s.recorded("what was killed", func(e history.Entry) bool { return e.Replaced != nil && e.Replaced.Killed > 0 })
	if killed.Handoff != 3 || killed.FromRelease != "stubborn" || killed.Replaced.Generation != 2 {
		t.Errorf("killed was in %+v", killed)
	}
	crashed := s.live()
	end(t, crashed.PID, unix.SIGKILL)
	s.recorded("the restart", func(e history.Entry) bool { return e.Handoff == 6 })
	s.recorded("the crash", func(e history.Entry) bool { return e.Ended != nil && e.Ended.Role == upgrade.RoleCrashed })

	by := fmt.Sprintf("uid %d", os.Getuid())
	want := []history.Entry{
		{Record: upgrade.Record{Handoff: 1, Kind: upgrade.KindStart, To: 1, ToRelease: "v1", Outcome: upgrade.OutcomeDone}},
		{Record: upgrade.Record{Handoff: 2, Kind: upgrade.KindDeploy, From: 1, To: 2, FromRelease: "v1", ToRelease: "stubborn", Outcome: upgrade.OutcomeDone, By: []string{by}}},
		{Record: upgrade.Record{Handoff: 3, Kind: upgrade.KindDeploy, From: 2, To: 3, FromRelease: "stubborn", ToRelease: "v2", Outcome: upgrade.OutcomeDone, By: []string{by}}},
		{Record: upgrade.Record{Handoff: 4, Kind: upgrade.KindDeploy, From: 3, To: 4, FromRelease: "v2", ToRelease: "bad", Outcome: upgrade.OutcomeFailed, By: []string{by}}},
		{Record: upgrade.Record{Handoff: 5, Kind: upgrade.KindReload, From: 3, To: 5, FromRelease: "v2", ToRelease: "v2", Outcome: upgrade.OutcomeDone, By: []string{"SIGHUP"}}},
		{Record: upgrade.Record{Handoff: 6, Kind: upgrade.KindRestart, To: 6, ToRelease: "v2", Outcome: upgrade.OutcomeDone}},
	}
	check := func(got []history.Entry) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%d handoffs are there: %+v", len(got), got)
		}
		for i, w := range want {
			g := got[i]
			if g.Handoff != w.Handoff || g.Kind != w.Kind || g.From != w.From || g.To != w.To || g.FromRelease != w.FromRelease ||
				g.ToRelease != w.ToRelease || g.Outcome != w.Outcome || strings.Join(g.By, "+") != strings.Join(w.By, "+") {
				t.Errorf("handoff %d is %+v", i+1, g)
			}
			if len(g.Steps) < 3 || g.Took <= 0 || g.Began.IsZero() {
				t.Errorf("handoff %d took %s, with the steps %+v", i+1, g.Took, g.Steps)
			}
		}
		if !strings.Contains(got[3].Reason, "exit status 3") || got[3].Phase != "ready" || got[3].Ended == nil {
			t.Errorf("handoff 4 is %+v", got[3])
		}
	}
	check(s.historyOf("--control", s.control()))
	_, table, _ := command(t, "history", "--control", s.control())
	for _, text := range []string{
		"WHEN", "v1 -> stubborn", "2 -> 3", "handoff 4: failed at step ready: generation 4 ended (exit status 3)", "handoff 3: generation 2 was killed after", "1 process left",
		"handoff 5: generation 5 ended by itself", "SIGHUP", by,
	} {
		if !strings.Contains(table, text) {
			t.Errorf("%q is not in\n%s", text, table)
		}
	}
	if _, table, _ := command(t, "history", "-n", "2", "--control", s.control()); strings.Contains(table, "stubborn") || !strings.Contains(table, "SIGHUP") {
		t.Errorf("the last two are\n%s", table)
	}
	s.signal(unix.SIGTERM)
	s.wait()
	check(s.historyOf("--state-directory", state))

	// Half a line, as after a power failure.
	path := filepath.Join(state, history.FileName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSpace(string(text)), "\n")
	for i, line := range lines {
		if strings.Contains(line, `"kind":"restart"`) {
			lines = lines[:i+1]
			lines[i] = line[:len(line)/2]
			break
		}
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	want = want[:5]
	check(s.historyOf("--state-directory", state))
	if _, _, stderr := command(t, "history", "--state-directory", state); !strings.Contains(stderr, "1 line in "+path+" cannot be understood") {
		t.Errorf("it says %q", stderr)
	}
}

func TestHistoryRefused(t *testing.T) {
	t.Parallel()
	empty := shortDir(t)
	for _, tc := range []struct {
		status int
		parts  []string
		args   []string
	}{
		{1, []string{"no history in " + empty, "--state-directory"}, []string{"history", "--state-directory", empty}},
		{1, []string{"no history of no-such-supervisor", "--state-directory"}, []string{"history", "--name", "no-such-supervisor"}},
		{3, []string{empty + "/none"}, []string{"history", "--control", empty + "/none"}},
		{2, []string{"-1"}, []string{"history", "-n", "-1"}},
		{2, []string{"extra"}, []string{"history", "extra"}},
	} {
		status, _, stderr := command(t, tc.args...)
		if status != tc.status || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit status %d: %s", tc.args, status, stderr)
		}
		for _, part := range tc.parts {
			if !strings.Contains(stderr, part) {
				t.Errorf("%q: %q is not in %s", tc.args, part, stderr)
			}
		}
	}
}

// Where the history cannot be written, since the file system is full, handoffs go on, and it is written once it can be.
func TestFullStateDirectory(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	state := filepath.Join(dir, "state")
	mountSmall(t, state)
	p := newSite(t, "v1", "v2", "v3")
	c := p.configuration("")
	c.dir = dir
	s := start(t, c)
	s.recorded("the start", func(e history.Entry) bool { return e.Handoff == 1 })
	client := s.loaded(2)
	fill := filepath.Join(state, "fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	f.Close()
	// The page that the file has may still have room for a row or two.
	for i := range 6 {
		s.mustDeploy("deploy", []string{"v2", "v3"}[i%2])
	}
	s.runs("v3")
	s.eventually("the log says so", func() bool {
		return strings.Contains(s.log.String(), "the history cannot be written") && strings.Contains(s.log.String(), "no space left")
	})
	// What is not on disk is known all the same.
	s.mustDeploy("rollback")
	s.runs("v2")
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	s.recorded("the rollback", func(e history.Entry) bool { return e.Handoff == 8 && e.Kind == upgrade.KindRollback })
	if entries := s.historyOf("--control", s.control()); len(entries) != 8 {
		t.Errorf("%d handoffs are there", len(entries))
	}
	s.eventually("the log says that it is over", func() bool { return strings.Contains(s.log.String(), "the history can be written again") })
	mustLoseNothing(t, client)
}
