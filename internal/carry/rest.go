package carry

import (
	"time"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// A rest is what a tree has to come to once all of its connections are parked: a moment at which every thread of it sleeps. A server
// that does not run just then, because it was stopped or others have the processors, may have been woken for bytes that came before
// its connection was parked, or be about to read on after an answer. From outside that connection looks idle, until the server runs
// again and takes a request from it. After a moment's rest nothing of that kind is left.
//
// A server that computes all the time never sleeps. It is running, then, and is given up on after a limit.
type rest struct {
	limit time.Duration // how long to wait for it
	since time.Time     // when waiting for it has begun; zero before
	seen  bool          // there was one since all have been between two requests
}

// over reports whether nothing more has to be waited for. It is called when all connections were just seen between two requests,
// and has to be called once more then, with all of them seen so again after the tree has been at rest.
func (r *rest) over(tree *child.Tree) bool {
	if r == nil || r.seen {
		return true
	}
	now := time.Now()
	if r.since.IsZero() {
		r.since = now
	}
	activity, err := tree.Activity()
	r.seen = err == nil && activity == child.Asleep
	if activity == child.Stopped {
		r.since = time.Time{} // it cannot get there
	}
	return activity != child.Stopped && now.Sub(r.since) > r.limit
}

// again notes that not all connections are between two requests any more.
func (r *rest) again() {
	if r != nil {
		*r = rest{limit: r.limit}
	}
}
