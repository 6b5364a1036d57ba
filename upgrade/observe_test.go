package upgrade_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A witness remembers what it was told.
type witness struct {
	mu   sync.Mutex
	seen []string
}

func (w *witness) HandoffEnded(r upgrade.Record) {
	w.add(fmt.Sprintf("handoff %d from %d to %d %s", r.Handoff, r.From, r.To, r.Outcome))
}

func (w *witness) GenerationGone(e upgrade.Ending) {
	w.add(fmt.Sprintf("generation %d %s handoff %d killed %t", e.Generation, e.Role, e.Handoff, e.Killed > 0))
}

func (w *witness) add(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, s)
}

func (w *witness) has(s string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.seen, s)
}

func TestObserver(t *testing.T) {
	t.Parallel()
	var w witness
	s := start(t, "stubborn", func(o *upgrade.Options) { o.Observers = []upgrade.Observer{&w} },
		func(p *upgrade.Plan) { p.DrainTimeout = 100 * time.Millisecond })
	s.live()
	s.become("exit")
	if _, err := s.handoff(); err == nil {
		t.Fatal("a version that exits became live")
	}
	s.become("good")
	if _, err := s.handoff(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"handoff 1 from 0 to 1 done", "handoff 2 from 1 to 2 failed", "handoff 3 from 1 to 3 done",
	} {
		if !w.has(want) { // it was told before the answer
			t.Errorf("nothing was told of %q", want)
		}
	}
	s.until("both gone", func(*upgrade.Status) bool {
		return w.has("generation 2 failed handoff 0 killed false") && w.has("generation 1 draining handoff 3 killed true")
	})
}
