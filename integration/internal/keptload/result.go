package keptload

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// maxReasons bounds how many different reasons are kept.
const maxReasons = 100

// A Result is what came of a load.
type Result struct {
	Answered   int
	Failed     int            // requests without an answer, and answers that were not right
	Wrong      int            // of them: answers that belong to something else
	IdleClosed int            // connections that the service has closed while no request was under way
	Reasons    map[string]int // of failures
	Slowest    time.Duration
	Last       []time.Duration // latencies of the answers that end their connections
	Ordinary   Latencies       // of the others
	Next       int             // for the next load's Config.First
}

// Latencies are a sample of latencies, evenly chosen from all.
type Latencies struct {
	N   int // of all
	All []time.Duration
}

const sampled = 5000

func (l *Latencies) add(d time.Duration) {
	l.N++
	if len(l.All) < sampled {
		l.All = append(l.All, d)
	} else if i := rand.IntN(l.N); i < sampled {
		l.All[i] = d
	}
}

// Quantile is what the share q of all does not exceed. It sorts all.
func Quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}

func (r Result) clone() Result {
	r.Reasons, r.Last = maps.Clone(r.Reasons), slices.Clone(r.Last)
	r.Ordinary.All = slices.Clone(r.Ordinary.All)
	return r
}

func (r Result) String() string {
	text := fmt.Sprintf("%d answered, %d failed %v, %d of them with what belongs to something else, %d idle closed, slowest %s",
		r.Answered, r.Failed, r.Reasons, r.Wrong, r.IdleClosed, r.Slowest)
	for _, l := range []struct {
		which string
		all   []time.Duration
	}{{"the last on their connections", r.Last}, {"the others", r.Ordinary.All}} {
		text += fmt.Sprintf("; %s took p50 %s, p99 %s", l.which, Quantile(l.all, 0.5), Quantile(l.all, 0.99))
	}
	return text
}

// smuggled is what numbers begin with that only bodies have.
const smuggled = "999999"

// Executed reads what a service has written down, the target of each request in a line, with a blank after it. It returns the numbers of the
// requests that were executed more than once, or that were never sent, and how many there are.
func Executed(journal string) (twice []string, all int) {
	times := make(map[string]int)
	for line := range strings.Lines(journal) {
		if _, rest, ok := strings.Cut(line, "/?id="); ok {
			id, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			times[id]++
		}
	}
	for id, n := range times {
		if n > 1 || strings.HasPrefix(id, smuggled) {
			twice = append(twice, id)
		}
	}
	return twice, len(times)
}
