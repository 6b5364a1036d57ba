package upgrade_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A logbook is a slog.Handler that remembers what a person sees.
type logbook struct {
	book  *[]string
	mu    *sync.Mutex
	attrs string
}

func newLogbook() *logbook { return &logbook{book: new([]string), mu: new(sync.Mutex)} }

func (l *logbook) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	text := r.Message + l.attrs
	r.Attrs(func(a slog.Attr) bool {
		text += told(a)
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	*l.book = append(*l.book, text)
	return nil
}

// told is what of an attribute is the same each time.
func told(a slog.Attr) string {
	switch a.Key {
	case "took", "pid", "address", "release", "from-release":
		return ""
	}
	return fmt.Sprintf(" %s=%s", a.Key, a.Value)
}

func (l *logbook) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *l
	for _, a := range attrs {
		with.attrs += told(a)
	}
	return &with
}

func (l *logbook) WithGroup(string) slog.Handler { return l }

// since returns what was written after the first line that begins like this, with that.
func (l *logbook) since(begin string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(*l.book, func(line string) bool { return strings.HasPrefix(line, begin) })
	if i < 0 {
		return nil
	}
	return slices.Clone((*l.book)[i:])
}

// From its beginning until the old generation is gone, a handoff has one line in the log for each transition, and none twice.
func TestLogOfHandoff(t *testing.T) {
	t.Parallel()
	l := newLogbook()
	s := start(t, "good", func(o *upgrade.Options) { o.Log = slog.New(l) }, nil)
	s.live()
	if _, err := s.handoff(); err != nil {
		t.Fatal(err)
	}
	s.live()
	want := []string{
		"handing off handoff=2 from=1 by=test",
		"resolved the configuration handoff=2",
		"the sockets are open handoff=2",
		"started handoff=2 generation=2",
		"ready handoff=2 generation=2",
		"new connections go to the new generation handoff=2 generation=2",
		"the old generation is quiet handoff=2 generation=2",
		"live handoff=2 generation=2",
		"telling a generation to stop generation=1 signal=SIGTERM limit=5s cause=replaced by generation 2",
		"gone generation=1 how=exit status 0 cause=replaced by generation 2",
	}
	s.until("the last line", func(*upgrade.Status) bool { return len(l.since(want[0])) >= len(want) })
	if got := l.since(want[0]); !slices.Equal(got, want) {
		t.Errorf("the log has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if first := l.since("starting the service"); len(first) < 7 || first[len(first)-1] != want[len(want)-1] || !slices.Contains(first, "live handoff=1 generation=1") {
		t.Errorf("the first start: %q", first)
	}

	s.become("exit")
	if _, err := s.handoff(); err == nil {
		t.Fatal("a version that exits became live")
	}
	var failed *string
	s.until("its end", func(*upgrade.Status) bool { return len(l.since("gone generation=3")) > 0 })
	for _, line := range l.since("handing off handoff=3") {
		if strings.HasPrefix(line, "handoff failed handoff=3 generation=3 step=ready cause=generation 3 ended (exit status 3)") {
			failed = &line
		}
		if strings.HasPrefix(line, "ready") || strings.HasPrefix(line, "telling") {
			t.Errorf("the log has %q", line)
		}
	}
	if failed == nil {
		t.Errorf("no line has the reason: %q", l.since("handing off handoff=3"))
	}
}
