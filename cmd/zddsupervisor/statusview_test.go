package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// viewed shows a status at noon, with width columns, as plain text.
func viewed(st *upgrade.Status, width int) string {
	v := statusView{screen: screen{out: io.Discard}, width: width, now: noon(), st: &control.Status{
		Identity: control.Identity{Name: "app", PID: 7, Program: "1.0"}, Status: st,
	}}
	v.state()
	v.underWay()
	v.generations()
	v.sockets()
	v.last()
	return strings.Join(v.lines, "\n")
}

func noon() time.Time { return time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) }

func at(before time.Duration) *time.Time {
	t := noon().Add(-before)
	return &t
}

func TestStatusView(t *testing.T) {
	t.Parallel()
	up := *at(50 * time.Hour)
	for _, tc := range []struct {
		name string
		st   upgrade.Status
		has  []string
		not  []string
	}{
		{"live", upgrade.Status{
			Phase: "idle", Since: up,
			Generations: []upgrade.GenerationStatus{
				{Number: 3, Role: upgrade.RoleDraining, Connections: 12, Processes: 1, Started: up, Because: "replaced by generation 4",
					Ending: &upgrade.EndingStatus{Told: true, Limit: noon().Add(22 * time.Second)}},
				{Number: 4, Release: "v2", Role: upgrade.RoleLive, Connections: -1, Started: up, Live: at(90 * time.Second), Status: "fine\n"},
			},
			Sockets: []upgrade.SocketStatus{{Name: "http", Mode: fdpass.Steered, Queue: 3, QueueLimit: 16, Seats: []upgrade.SeatStatus{{Generation: 4, Share: 1}, {Generation: 3}}}},
			Last:    &upgrade.Record{Handoff: 4, Outcome: upgrade.OutcomeDone, Began: *at(2 * time.Minute), Took: 30 * time.Second, By: []string{"uid 0"}},
		}, []string{"app is live: generation 4 (v2) since 1m30s", "up 2d2h", "12", "killed in 22s; replaced by generation 4", "3/16", "generation 4\n", "fine", "?",
			"last handoff: 4 done, 1m30s ago, took 30s, asked for by uid 0"},
			[]string{"socket http:", "DOWN", "NOBODY"}},
		{"a crash", upgrade.Status{
			Phase: "idle", Down: "generation 4 ended by itself (exit status 3)", Retry: at(-2 * time.Second),
			Sockets: []upgrade.SocketStatus{{Name: "http", Mode: fdpass.Steered, Seats: []upgrade.SeatStatus{{Share: 1}}}, {Name: "local", Mode: fdpass.Shared}},
		}, []string{"app is DOWN: generation 4 ended by itself (exit status 3)", "started again in 2s", "wait for the next generation"},
			[]string{"generation 4\n", "whoever", "GEN "}},
		{"a crash whose helpers are still there", upgrade.Status{
			Down:        "x",
			Generations: []upgrade.GenerationStatus{{Number: 4, Role: upgrade.RoleCrashed}},
			Sockets:     []upgrade.SocketStatus{{Name: "http", Mode: fdpass.Steered, Seats: []upgrade.SeatStatus{{Generation: 4, Share: 1}}}},
		}, []string{"crashed", "wait for the next generation"}, []string{"generation 4"}},
		{"under way", upgrade.Status{
			Phase: "ready", Waiting: true, Current: &upgrade.Record{Handoff: 5, To: 5, ToRelease: "v3", Began: *at(20 * time.Second)},
			Step: &upgrade.StepStatus{Began: *at(12 * time.Second), Waits: "generation 5 to be ready (READY=1), at most 1m30s"},
		}, []string{"app is starting", "handoff 5 to generation 5 (v3), 20s old, is at step ready for 12s: waits for generation 5 to be ready (READY=1)", "one more handoff follows"}, nil},
		{"a socket that was shut down", upgrade.Status{
			Generations: []upgrade.GenerationStatus{{Number: 1, Role: upgrade.RoleLive}},
			Sockets:     []upgrade.SocketStatus{{Name: "local", Mode: fdpass.Shared, ShutDown: true, Lost: 2}},
		}, []string{"NOBODY CAN CONNECT to local", "NOBODY: it was shut down", "shutdown(2)", "2 LOST"}, []string{"whoever", "passed on", "repaired"}},
		{"stopping", upgrade.Status{Phase: "stop"}, []string{"app is stopping"}, []string{"DOWN"}},
	} {
		for _, width := range []int{0, 40, 7} {
			text := viewed(&tc.st, width)
			if width != 0 {
				for line := range strings.Lines(text) {
					if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
						t.Errorf("%s: a line has %d columns and not %d: %q", tc.name, n, width, line)
					}
				}
				continue
			}
			for _, want := range tc.has {
				if !strings.Contains(text, want) {
					t.Errorf("%s: %q is not in\n%s", tc.name, want, text)
				}
			}
			for _, no := range tc.not {
				if strings.Contains(text, no) {
					t.Errorf("%s: %q is in\n%s", tc.name, no, text)
				}
			}
		}
	}
}

func TestNewerSupervisorIsTold(t *testing.T) {
	t.Parallel()
	for version, want := range map[int]bool{upgrade.StatusVersion: false, upgrade.StatusVersion + 1: true} {
		st := &control.Status{Status: &upgrade.Status{Version: version}}
		text := strings.Join(showStatus(screen{out: io.Discard}, st, nil, noon()), "\n")
		if strings.Contains(text, "newer") != want {
			t.Errorf("version %d: %s", version, text)
		}
	}
}

func TestPaint(t *testing.T) {
	t.Parallel()
	if got := (screen{colors: true}).paint("x", red); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("%q", got)
	}
	if got := (screen{}).paint("x", red); got != "x" {
		t.Errorf("%q", got)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text  string
		width int
		want  []string
	}{
		{"a b c", 0, []string{"a b c"}},
		{"aaa bbb ccc", 7, []string{"aaa bbb", "  ccc"}},
		{"aaaaaaaaaaaa", 5, []string{"aaaaa", "  aaa", "  aaa", "  a"}},
		{"a\x1b[2Jb", 0, []string{"a [2Jb"}},
		{"", 5, []string{""}},
	} {
		if got := wrap(tc.text, tc.width, 2); fmt.Sprint(got) != fmt.Sprint(tc.want) {
			t.Errorf("%q in %d columns: %q, want %q", tc.text, tc.width, got, tc.want)
		}
	}
}

func TestLasted(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 1234 * time.Millisecond: "1.2s", 61 * time.Second: "1m1s", 2*time.Hour + 5*time.Minute + time.Second: "2h5m", 49 * time.Hour: "2d1h",
	} {
		if got := lasted(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
