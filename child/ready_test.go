package child_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// ready starts a command with a Waiter and waits, at most for limit, or until
// something has come about that makes further waiting pointless.
func ready(t testing.TB, r *child.Reaper, w child.Waiter, c child.Command, limit time.Duration, until func(*child.Process) bool) error {
	t.Helper()
	if err := w.Prepare(&c); err != nil {
		t.Fatal(err)
	}
	if fd, ok := w.(*child.FDReady); ok {
		c.Args = append(c.Args, fmt.Sprint(fd.Number()))
	}
	p := start(t, r, c)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if until != nil {
		late, lateNow := context.WithCancelCause(ctx)
		ctx = late
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for !until(p) && ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			lateNow(context.DeadlineExceeded)
		}()
		defer func() { <-watched }()
		defer lateNow(nil)
	}
	err := w.Wait(ctx, p)
	for range 2 {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	return err
}

const (
	short = 100 * time.Millisecond // for what times out
	long  = patience               // for what does not
)

func TestReady(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	closed := make(chan struct{})
	close(closed)
	dir := t.TempDir()
	flag, tried, again, hangs := filepath.Join(dir, "ready"), filepath.Join(dir, "tried"), filepath.Join(dir, "again"), filepath.Join(dir, "hangs")
	exists := func(file string) func(*child.Process) bool {
		return func(*child.Process) bool {
			_, err := os.Stat(file)
			return err == nil
		}
	}
	hasChild := func(p *child.Process) bool { return len(members(t, p)) > 1 }
	notify := func(ready <-chan struct{}) child.Waiter { return &child.NotifyReady{Ready: ready} }
	fd := func() child.Waiter { return &child.FDReady{} }
	delay := func(d time.Duration) child.Waiter { return &child.DelayReady{Delay: d} }
	exec := func(script string) child.Waiter {
		return &child.ExecReady{Reaper: r, Path: "sh", Args: []string{"sh", "-c", script}, Interval: time.Millisecond}
	}
	for name, test := range map[string]struct {
		waiter child.Waiter
		script string
		limit  time.Duration
		want   []string // in the error; nil for ready
		exited bool
		late   bool
		until  func(*child.Process) bool
	}{
		"notify":             {waiter: notify(closed), script: "exec sleep 1000", limit: long},
		"notify, exits":      {waiter: notify(nil), script: "exit 3", limit: long, exited: true, want: []string{"it ended before it was ready: exit status 3"}},
		"notify, crashes":    {waiter: notify(nil), script: "kill -KILL $$", limit: long, exited: true, want: []string{"killed by SIGKILL"}},
		"notify, late":       {waiter: notify(nil), script: "exec sleep 1000", limit: short, late: true, want: []string{"it was not ready after 1", "READY=1", `ready.by = "notify"`, "notify, fd, http, accept, exec and delay"}},
		"notify, shell":      {waiter: notify(nil), script: "sleep 1000; true", limit: long, until: hasChild, late: true, want: []string{`the shell "sh"`, "put exec before"}},
		"notify, daemonizes": {waiter: notify(nil), script: "sleep 1000 & exit 0", limit: long, exited: true, want: []string{"exit status 0", "still run", "foreground"}},

		"fd":              {waiter: fd(), script: `eval "echo >&$0"; exec sleep 1000`, limit: long},
		"fd, with text":   {waiter: fd(), script: `eval "printf 'some text' >&$0; printf 'and\nmore' >&$0"; exec sleep 1000`, limit: long},
		"fd, ready, gone": {waiter: fd(), script: `eval "echo >&$0"; exit 0`, limit: long},
		"fd, closes":      {waiter: fd(), script: `eval "printf text >&$0; exec $0>&-"; exec sleep 1000`, limit: long, want: []string{"closed its ready descriptor without a newline"}},
		"fd, exits":       {waiter: fd(), script: "exit 3", limit: long, exited: true, want: []string{"exit status 3"}},
		"fd, late":        {waiter: fd(), script: "exec sleep 1000", limit: short, late: true, want: []string{"no newline", `ready.by = "fd"`}},

		"delay":        {waiter: delay(time.Millisecond), script: "exec sleep 1000", limit: long},
		"delay, exits": {waiter: delay(long), script: "exit 3", limit: long, exited: true, want: []string{"exit status 3"}},
		"delay, late":  {waiter: delay(long), script: "exec sleep 1000", limit: short, late: true, want: []string{"the delay of 30s"}},

		"exec":         {waiter: exec("test -e " + flag), script: "sleep 0.05; touch " + flag + "; exec sleep 1000", limit: long},
		"exec, exits":  {waiter: exec("exit 1"), script: "sleep 0.05; exit 3", limit: long, exited: true, want: []string{"exit status 3"}},
		"exec, late":   {waiter: exec("[ -e " + tried + " ] && touch " + again + "; touch " + tried + "; echo nothing; echo no luck today >&2; exit 9"), script: "exec sleep 1000", limit: long, until: exists(again), late: true, want: []string{"the command sh", "exit status 9: no luck today", `ready.by = "exec"`}},
		"exec, hangs":  {waiter: exec("echo waiting; touch " + hangs + "; sleep 1000"), script: "exec sleep 1000", limit: long, until: exists(hangs), late: true, want: []string{"it is still running: waiting"}},
		"exec, killed": {waiter: exec("sleep 1000"), script: "sleep 0.05; exit 3", limit: long, exited: true, want: []string{"exit status 3"}},
		"exec, absent": {waiter: &child.ExecReady{Reaper: r, Path: "/no/such"}, script: "exec sleep 1000", limit: long, want: []string{"the ready command: cannot start /no/such: no such file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := ready(t, r, test.waiter, sh(test.script), test.limit, test.until)
			if name == "fd, ready, gone" { // either may be seen first
				var e *child.ExitedError
				if err != nil && !errors.As(err, &e) {
					t.Errorf("got %v", err)
				}
				return
			}
			if test.want == nil {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("it was ready")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %q", want, err)
				}
			}
			var exited *child.ExitedError
			if errors.As(err, &exited) != test.exited {
				t.Errorf("got a %T", err)
			}
			var late *child.NotReadyError
			if errors.As(err, &late) != test.late || errors.Is(err, context.DeadlineExceeded) != test.late {
				t.Errorf("got a %T", err)
			}
			if errors.Is(err, child.ErrReadyClosed) != (name == "fd, closes") {
				t.Errorf("got a %T", err)
			}
		})
	}
}

// A caller who moves the deadline cancels by himself, and says why.
func TestReadyCauses(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	stopped := errors.New("somebody wants us to stop")
	for _, w := range []child.Waiter{
		&child.NotifyReady{},
		&child.FDReady{},
		&child.DelayReady{Delay: long},
		&child.ExecReady{Reaper: r, Path: "/bin/false"},
	} {
		for _, cause := range []error{stopped, context.DeadlineExceeded} {
			c := sh("exec sleep 1000")
			if err := w.Prepare(&c); err != nil {
				t.Fatal(err)
			}
			p := start(t, r, c)
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			err := w.Wait(ctx, p)
			var late *child.NotReadyError
			if !errors.Is(err, cause) || errors.As(err, &late) != (cause == context.DeadlineExceeded) {
				t.Errorf("%T, cancelled by %v: %v", w, cause, err)
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestReadyNumber(t *testing.T) {
	t.Parallel()
	var first, second child.FDReady
	c := child.Command{Sockets: []child.NamedFD{{FD: listener(t)}, {FD: listener(t)}}}
	for i, w := range []*child.FDReady{&first, &second} {
		if err := w.Prepare(&c); err != nil {
			t.Fatal(err)
		}
		if got, want := w.Number(), 5+i; got != want {
			t.Errorf("number %d, want %d", got, want)
		}
	}
	// Closed without Wait, and the child's end blocks as programs expect it.
	flags, err := unix.FcntlInt(uintptr(c.Extra[0].Raw()), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
	for _, w := range []*child.FDReady{&first, &second} {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	var never child.FDReady
	if err := never.Close(); err != nil {
		t.Error(err)
	}
}

// The ready command runs in the surroundings of the service, but it is not it.
func TestExecReadySurroundings(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := sh("exec sleep 1000")
	c.Dir = dir
	c.Env = append(c.Env, "A=1")
	c.Notify = "/run/test/ready"
	c.Sockets = []child.NamedFD{{FD: listener(t)}}
	w := &child.ExecReady{Reaper: r, Path: "sh", Args: []string{"sh", "-c", "env > out; pwd >> out"}}
	if err := ready(t, r, w, c, long, nil); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	if !slices.Contains(lines, "A=1") || !slices.Contains(lines, dir) {
		t.Errorf("got %q", lines)
	}
	for _, name := range []string{"LISTEN_", "NOTIFY_SOCKET", "ZDDSUPERVISOR"} {
		if strings.Contains(string(b), name) {
			t.Errorf("%s is in %q", name, lines)
		}
	}
}

// However much it writes, and though it leaves somebody behind who holds its output.
func TestExecReadyOutput(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	w := &child.ExecReady{Reaper: r, Path: "sh", Args: []string{"sh", "-c", "yes | head -c 1000000; sleep 5 & exit 0"}}
	began := time.Now()
	if err := ready(t, r, w, sh("exec sleep 1000"), long, nil); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
}
