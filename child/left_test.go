package child_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// What was started with a mark is found by it, with what that has started; and is killed, and nobody else is.
func TestLeft(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	dir := t.TempDir()
	begin := func(mark string) *child.Process {
		c := sh("sleep 1000 & echo; wait")
		out := newOutput(t)
		c.Stdout, c.Notify = out.write, filepath.Join(dir, mark+".7")
		c.Env = append(c.Env, "MARK="+dir+mark)
		p := start(t, r, c)
		out.line(t)
		return p
	}
	one, other := begin("one"), begin("other")
	left, err := child.Left(filepath.Join(dir, "one."))
	if err != nil || len(left) != 2 || !slices.Contains(left, one.Pid()) {
		t.Errorf("left: %v, %v; the main process is %d", left, err, one.Pid())
	}
	if killed, err := child.KillLeft(deadline(t), "MARK="+dir+"one"); killed != 2 || err != nil {
		t.Errorf("killed %d, %v", killed, err)
	}
	<-one.Done()
	if left, err := child.Left(filepath.Join(dir, "one.")); err != nil || len(left) > 0 {
		t.Errorf("left after that: %v, %v", left, err)
	}
	if left, err := child.Left(filepath.Join(dir, "other.")); err != nil || len(left) != 2 {
		t.Errorf("left of the other: %v, %v", left, err)
	}
	select {
	case <-other.Done():
		t.Error("the other one has ended")
	default:
	}
}
