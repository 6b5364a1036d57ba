package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// handoff is one that was done, from release v(N-1) to vN.
func handoff(n int) upgrade.Record {
	r := upgrade.Record{
		Handoff: n, Kind: upgrade.KindDeploy, From: n - 1, To: n, FromRelease: fmt.Sprintf("v%d", n-1), ToRelease: fmt.Sprintf("v%d", n),
		Outcome: upgrade.OutcomeDone, By: []string{"uid 0"}, Steps: []upgrade.StepTime{{Name: "ready", Took: time.Second}},
	}
	return r
}

func flush(t *testing.T, l *Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := l.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

// read returns the numbers of the handoffs in a history.
func read(t *testing.T, dir string) (entries []Entry, numbers []int) {
	t.Helper()
	entries, damaged, err := Read(dir)
	if err != nil || damaged > 0 {
		t.Fatalf("%d lines are damaged, %v", damaged, err)
	}
	for _, e := range entries {
		numbers = append(numbers, e.Handoff)
	}
	return entries, numbers
}

func TestLogAndRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, _, err := Read(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	l := Open(Options{Directory: dir})
	l.HandoffEnded(handoff(1))
	l.HandoffEnded(handoff(2))
	failed := handoff(3)
	failed.Outcome, failed.Reason, failed.Phase = upgrade.OutcomeFailed, "it is bad", "ready"
	l.HandoffEnded(failed)
	l.GenerationGone(upgrade.Ending{Generation: 3, Role: upgrade.RoleFailed, Exit: "exit status 7"})
	l.GenerationGone(upgrade.Ending{Generation: 1, Role: upgrade.RoleDraining, Handoff: 2, Killed: 5})
	l.GenerationGone(upgrade.Ending{Generation: 77, Role: upgrade.RoleDraining, Handoff: 66}) // of which the history says nothing
	l.HookEnded(upgrade.HookResult{Hook: "after-live", Handoff: 2, Generation: 2, Error: "it failed"})
	flush(t, l)
	entries, numbers := read(t, dir)
	if !slices.Equal(numbers, []int{1, 2, 3}) {
		t.Fatalf("read: %v", numbers)
	}
	if e := entries[1]; e.Replaced == nil || e.Replaced.Killed != 5 || e.Ended != nil || len(e.Hooks) != 1 || e.FromRelease != "v1" || e.By[0] != "uid 0" ||
		e.Steps[0].Took != time.Second {
		t.Errorf("the second is %+v", e)
	}
	if e := entries[2]; e.Ended == nil || e.Ended.Exit != "exit status 7" || e.Reason != "it is bad" || e.Replaced != nil {
		t.Errorf("the third is %+v", e)
	}
	l.Close()

	l = Open(Options{Directory: dir})
	defer l.Close()
	if h, g := l.Newest(); h != 3 || g != 77 {
		t.Errorf("the newest are %d and %d", h, g)
	}
	if good := l.Good("v2"); !slices.Equal(good, []string{"v1"}) {
		t.Errorf("good are %q", good)
	}
	l.Resume(&failed)
	four := handoff(4)
	l.Resume(&four)
	l.Resume(nil)
	flush(t, l)
	if _, numbers := read(t, dir); !slices.Equal(numbers, []int{1, 2, 3, 4}) {
		t.Errorf("read: %v", numbers)
	}
}

// Half a line at the end, garbage in the middle, later versions, unknown fields: what can be read is, and what is written next too.
func TestTorn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	line := func(n int) string {
		r := handoff(n)
		b, err := encode(row{Handoff: &r})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	torn := line(1) + "garbage\x00\xff\n" + strings.Replace(line(2), `"version":1`, `"version":1,"later":{"x":[1]}`, 1) +
		strings.Replace(line(3), `"version":1`, `"version":2`, 1) + "\n" + strings.Repeat("x", maxLine+10) + "\n" + line(4) + `{"version":1,"another":{}}` + "\n" +
		line(5)[:len(line(5))/2]
	if err := os.WriteFile(path, []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	l := Open(Options{Directory: dir, MaxBytes: 10 << 20, Log: slog.New(slog.NewTextHandler(&told, nil))}) // the next row goes into the same file
	if h, _ := l.Newest(); h != 4 || !strings.Contains(told.String(), "lines=4") {
		t.Errorf("the newest is %d; the log says %s", h, &told)
	}
	l.HandoffEnded(handoff(6))
	flush(t, l)
	l.Close()
	entries, damaged, err := Read(dir)
	var numbers []int
	for _, e := range entries {
		numbers = append(numbers, e.Handoff)
	}
	if err != nil || damaged != 4 || !slices.Equal(numbers, []int{1, 2, 4, 6}) {
		t.Errorf("read: %v, %d damaged, %v", numbers, damaged, err)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := Open(Options{Directory: dir, MaxBytes: 2000, Files: 3})
	for n := range 100 {
		l.HandoffEnded(handoff(n + 1))
		if n%7 == 0 {
			flush(t, l)
			if _, numbers := read(t, dir); numbers[len(numbers)-1] != n+1 {
				t.Fatalf("after %d: %v", n+1, numbers)
			}
		}
	}
	flush(t, l)
	l.Close()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Size() > 2000 {
			t.Errorf("%s: %v, %v", e.Name(), info.Size(), err)
		}
	}
	_, numbers := read(t, dir)
	if len(numbers) < 8 || numbers[len(numbers)-1] != 100 || numbers[0] != 101-len(numbers) {
		t.Errorf("read: %v", numbers)
	}
}

// Readers see every row at every moment, also while files are renamed.
func TestReadWhileRotating(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := Open(Options{Directory: dir, MaxBytes: 1200, Files: 16})
	l.HandoffEnded(handoff(1))
	flush(t, l)
	var writing sync.WaitGroup
	writing.Add(1)
	go func() {
		defer writing.Done()
		for n := 2; n <= 40; n++ { // fewer than have room
			l.HandoffEnded(handoff(n))
			if err := l.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}()
	for last := 0; last < 40 && !t.Failed(); {
		_, numbers := read(t, dir)
		for i, n := range numbers {
			if n != i+1 {
				t.Errorf("read: %v", numbers)
				break
			}
		}
		if len(numbers) < last {
			t.Errorf("%d were there, and now %d are", last, len(numbers))
		}
		last = len(numbers)
	}
	writing.Wait()
	l.Close()
}

// Where it cannot be written, nobody waits; the log says so once; and everything that has room is written once it can be.
func TestCannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state") // is not there
	told := &syncBuffer{}
	l := Open(Options{Directory: dir, Log: slog.New(slog.NewTextHandler(told, nil)), Retry: time.Millisecond, MaxRows: 10})
	for n := range 30 {
		l.HandoffEnded(handoff(n + 1))
	}
	told.until(t, "cannot be written")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := l.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("flush: %v", err)
	}
	if good := l.Good("v30"); len(good) != 29 || good[0] != "v29" {
		t.Errorf("good are %q", good)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	told.until(t, "can be written again")
	flush(t, l)
	l.Close()
	if _, numbers := read(t, dir); len(numbers) != 10 || numbers[0] != 21 || numbers[9] != 30 {
		t.Errorf("read: %v", numbers)
	}
	if n := strings.Count(told.String(), "cannot be written"); n != 1 || !strings.Contains(told.String(), "lost=20") {
		t.Errorf("the log says\n%s", told)
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *syncBuffer) until(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !strings.Contains(b.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not told: %s\n%s", text, b)
		}
	}
}

func TestGood(t *testing.T) {
	t.Parallel()
	done := func(kind upgrade.Kind, to int, from, release string) row {
		return row{Handoff: &upgrade.Record{Handoff: to, Kind: kind, From: to - 1, To: to, FromRelease: from, ToRelease: release, Outcome: upgrade.OutcomeDone}}
	}
	died := func(generation int, release string, probation bool) row {
		return row{Ending: &upgrade.Ending{Generation: generation, Release: release, Role: upgrade.RoleCrashed, Probation: probation}}
	}
	failed := done(upgrade.KindDeploy, 9, "c", "bad")
	failed.Handoff.Outcome = upgrade.OutcomeFailed
	abc := []row{done(upgrade.KindStart, 1, "", "a"), done(upgrade.KindDeploy, 2, "a", "b"), done(upgrade.KindDeploy, 3, "b", "c")}
	for name, tc := range map[string]struct {
		rows []row
		from string
		want []string
	}{
		"nothing":             {nil, "a", nil},
		"in order":            {abc, "c", []string{"b", "a"}},
		"not itself":          {append(abc, done(upgrade.KindReload, 4, "c", "c")), "c", []string{"b", "a"}},
		"not what failed":     {append(abc, failed), "c", []string{"b", "a"}},
		"not what died":       {append(abc, died(3, "c", true), done(upgrade.KindAutoRollback, 4, "", "b")), "b", []string{"a"}},
		"what died later":     {append(abc, died(3, "c", false), done(upgrade.KindDeploy, 4, "", "b")), "b", []string{"c", "a"}},
		"restarted":           {append(abc, died(3, "c", true), done(upgrade.KindRestart, 4, "", "c"), done(upgrade.KindDeploy, 5, "c", "d")), "d", []string{"b", "a"}},
		"restarted at once":   {append(abc, done(upgrade.KindRestart, 4, "", "c"), died(3, "c", true), done(upgrade.KindDeploy, 5, "c", "d")), "d", []string{"b", "a"}},
		"deployed again":      {append(abc, died(3, "c", true), done(upgrade.KindDeploy, 4, "", "c"), done(upgrade.KindDeploy, 5, "c", "d")), "d", []string{"c", "b", "a"}},
		"again, told late":    {append(abc, done(upgrade.KindDeploy, 4, "", "c"), died(3, "c", true), done(upgrade.KindDeploy, 5, "c", "d")), "d", []string{"c", "b", "a"}},
		"rolled back from":    {append(abc, done(upgrade.KindRollback, 4, "c", "b")), "b", []string{"a"}},
		"and deployed again":  {append(abc, done(upgrade.KindRollback, 4, "c", "b"), done(upgrade.KindDeploy, 5, "b", "c")), "c", []string{"b", "a"}},
		"without any release": {[]row{done(upgrade.KindReload, 1, "", "")}, "", nil},
	} {
		var r releases
		for _, row := range tc.rows {
			if row.Handoff != nil {
				r.handoff(row.Handoff)
			} else {
				r.ending(row.Ending)
			}
		}
		if got := r.good(tc.from); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// Whatever the file has in it: rows are read or counted, and what is read can be written again.
func FuzzRead(f *testing.F) {
	r := handoff(3)
	line, err := encode(row{Handoff: &r})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add(line[:len(line)/2])
	f.Add([]byte("{\"version\":1,\"ending\":{\"generation\":2,\"handoff\":3}}\n\n{\"version\":2}\nnull\n[]"))
	f.Fuzz(func(t *testing.T, b []byte) {
		lines := bytes.Count(b, []byte("\n")) + 1
		rows := 0
		var entries []Entry
		damaged, err := each(bytes.NewReader(b), func(r row) {
			rows++
			entries = join(entries, r)
			again, err := encode(r)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := each(bytes.NewReader(again), func(row) {}); n > 0 || err != nil {
				t.Fatalf("written again it is %s: %v", again, err)
			}
		})
		if err != nil || rows+damaged > lines || len(entries) > rows {
			t.Fatalf("%d rows, %d damaged, of %d lines: %v", rows, damaged, lines, err)
		}
	})
}

// What is known of releases outlives the files in which it stood, however often a service is started again.
func TestGoodOutlivesItsFile(t *testing.T) {
	t.Parallel()
	o := Options{Directory: t.TempDir(), MaxBytes: 4000, Files: 2}
	l := Open(o)
	l.HandoffEnded(handoff(1))
	l.HandoffEnded(handoff(2))
	for n := 3; n < 100; n++ {
		again := handoff(n)
		again.Kind, again.FromRelease, again.ToRelease = upgrade.KindRestart, "v2", "v2"
		l.HandoffEnded(again)
		flush(t, l)
	}
	l.Close()
	if _, numbers := read(t, o.Directory); numbers[0] < 10 {
		t.Fatalf("the files still have %v", numbers)
	}
	l = Open(o)
	defer l.Close()
	if good := l.Good("v2"); len(good) != 1 || good[0] != "v1" {
		t.Errorf("good are %q", good)
	}
}
