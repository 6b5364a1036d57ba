package history

import (
	"slices"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// releases is what a history says about releases: which were live, and which of them were given up.
type releases struct {
	live []live // one for each release, in the order in which they were made live last
}

// live is that a release was made live.
type live struct {
	Release    string `json:"release"`
	Generation int    `json:"generation"`
	GivenUp    bool   `json:"given_up,omitempty"` // it has ended by itself in its probation, or somebody has rolled back from it
}

// handoff takes a handoff in. What is started again after a crash shows nothing new about its release.
func (r *releases) handoff(h *upgrade.Record) {
	if h.Outcome != upgrade.OutcomeDone || h.Kind == upgrade.KindRestart {
		return
	}
	if h.Kind == upgrade.KindRollback && h.FromRelease != h.ToRelease {
		r.giveUp(h.FromRelease, h.From)
	}
	if h.ToRelease == "" {
		return
	}
	r.live = slices.DeleteFunc(r.live, func(l live) bool { return l.Release == h.ToRelease })
	r.live = append(r.live, live{Release: h.ToRelease, Generation: h.To})
}

// ending takes the end of a generation in.
func (r *releases) ending(e *upgrade.Ending) {
	if e.Probation {
		r.giveUp(e.Release, e.Generation)
	}
}

// giveUp notes that a release was given up, unless another generation was made live of it since. Generation 0 stands for one that was
// not there any more.
func (r *releases) giveUp(release string, generation int) {
	for i, l := range r.live {
		if l.Release == release && (generation == 0 || generation >= l.Generation) {
			r.live[i].GivenUp = true
		}
	}
}

// good returns those that were not given up, without one, the newest first.
func (r *releases) good(without string) (names []string) {
	for _, l := range slices.Backward(r.live) {
		if l.Release != without && !l.GivenUp {
			names = append(names, l.Release)
		}
	}
	return names
}
