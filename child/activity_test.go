package child_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
)

func TestActivity(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	activity := func(p *child.Process) child.Activity {
		t.Helper()
		a, err := p.Tree().Activity()
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	become := func(p *child.Process, want child.Activity) {
		t.Helper()
		waitFor(t, "the activity of a tree", func() bool { return activity(p) == want })
	}
	// Its child counts too.
	idle := start(t, r, child.Command{Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 1000 & wait"}})
	become(idle, child.Asleep)
	if err := idle.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	become(idle, child.Stopped)
	if err := idle.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	become(idle, child.Asleep)

	// One of its processes computes, while the main one waits.
	busy, _ := startShowing(t, r, child.Command{Path: "/bin/sh", Args: []string{"sh", "-c", "sh -c 'echo $$; while :; do :; done' & wait"}}, 1)
	for range 200 {
		if a := activity(busy); a != child.Active {
			t.Fatalf("a tree that computes is %d", a)
		}
	}
}
