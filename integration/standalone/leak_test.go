package standalone

import (
	"testing"
	"time"
)

// After fifty handoffs the supervisor has as many descriptors and threads as after five.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	c := tested("v0")
	c.sockets = steeredSocket + "[[socket]]\nname = \"second\"\nlisten = \"unix://" + shortDir(t) + "/s.sock\"\n[[socket]]\nname = \"third\"\nlisten = \"udp://127.0.0.1:0\"\n"
	s := start(t, c)
	handoffs := func(n int) {
		t.Helper()
		for range n {
			s.mustReload()
		}
		s.settled()
	}
	handoffs(5)
	descriptors, threads := s.few(s.descriptors, 0), s.few(func() int { return tasks(t, s.pid()) }, 0)
	handoffs(50)
	if now := s.few(s.descriptors, descriptors); now > descriptors {
		t.Errorf("%d descriptors, and there were %d", now, descriptors)
	}
	// The runtime keeps a thread that was needed once, and how many are needed at once is chance.
	if now := s.few(func() int { return tasks(t, s.pid()) }, threads); now > threads+4 {
		t.Errorf("%d threads, and there were %d", now, threads)
	}
}

// few returns the least that is counted in a second, or the first that is no more than enough.
func (s *supervisor) few(count func() int, enough int) int {
	s.t.Helper()
	least := count()
	for end := time.Now().Add(time.Second); least > enough && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		least = min(least, count())
	}
	return least
}
