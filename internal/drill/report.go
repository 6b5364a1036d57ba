package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// ReportVersion is the version of Report as JSON. Fields may be added within a version.
const ReportVersion = 1

// Report is what came of a run. Its times count from Began, in nanoseconds.
type Report struct {
	Version int     `json:"version"`
	Verdict Verdict `json:"verdict"`
	Reason  string  `json:"reason"` // in one sentence
	// Busy tells that the verdict is Inconclusive for no other reason than that this machine was too busy: another run may have one.
	Busy bool `json:"busy,omitempty"`
	// Notes are what else the reader should know.
	Notes []string `json:"notes,omitempty"`

	URL      string        `json:"url"`
	Address  string        `json:"address"` // that it was resolved to
	Protocol string        `json:"protocol"`
	Rate     float64       `json:"rate"`
	Began    time.Time     `json:"began"`
	Took     time.Duration `json:"took_ns"`

	Handoffs []*Handoff `json:"handoffs"`
	Answered []Answerer `json:"answered"`

	All       Stats `json:"all"`
	WarmUp    Stats `json:"warm_up"`
	Calm      Stats `json:"calm"`
	Disturbed Stats `json:"disturbed"`
	// The same for one kind of connection alone.
	New  Pair `json:"new"`
	Kept Pair `json:"kept"`
	// Kinds are the failures by kind.
	Kinds []KindCount `json:"kinds"`
	// IdleEnded is how many kept-alive connections the service ended between two requests. That is no failure.
	IdleEnded int `json:"idle_ended"`
	// Late is how many requests the client sent more than 100 ms after they were due.
	Late int `json:"late"`
	// Stalled is how late this machine woke a waiting program, at the worst, and StalledShare the part of the time in which it was
	// late with one.
	Stalled      time.Duration `json:"stalled_ns"`
	StalledShare float64       `json:"stalled_share"`
	// ExecutedKnown tells that the service reported what it executed, and ExecutedTwice how many ids more than once.
	ExecutedKnown bool `json:"executed_known"`
	ExecutedTwice int  `json:"executed_twice"`

	executedUnknown string // why, if it was asked for; else ""

	// Requests are all of them, in the order in which they ended. They are not in the JSON.
	Requests []Request `json:"-"`
}

// Pair is the calm and the disturbed time.
type Pair struct {
	Calm      Stats `json:"calm"`
	Disturbed Stats `json:"disturbed"`
}

// KindCount is how many requests failed in one way.
type KindCount struct {
	Kind     Kind   `json:"kind"`
	Requests int    `json:"requests"`
	Example  string `json:"example,omitempty"` // the first one's
}

// Answerer is a version or process that answered.
type Answerer struct {
	Name     string        `json:"name"`
	Requests int           `json:"requests"`
	First    time.Duration `json:"first_ns"`
	Last     time.Duration `json:"last_ns"`
}

// report looks at a run that is over.
func (r *run) report(ctx context.Context, began time.Time, interrupted string) *Report {
	l := r.load
	rep := &Report{
		Version: ReportVersion, URL: r.config.URL, Address: l.dialer.address.String(), Protocol: l.dialer.describe(), Rate: r.config.Rate,
		Began: began, Took: time.Since(l.begin), Handoffs: r.handoffs, IdleEnded: l.pool.ended, Requests: l.requests,
		Stalled: l.pulse.worst(), StalledShare: l.pulse.share(),
	}
	r.lookAtAnswers(l.requests, rep.Took)
	rep.Answered = l.answerers()
	parts := map[bool]map[class]*sample{}
	for _, kept := range []bool{false, true} {
		parts[kept] = map[class]*sample{warming: {}, calm: {}, disturbed: {}}
	}
	var all sample
	classes := map[class]*sample{warming: {}, calm: {}, disturbed: {}}
	for i := range l.requests {
		q := &l.requests[i]
		in := r.classify(q)
		stalled := stallsCost * l.pulse.between(q.Start, q.End)
		all.add(q, stalled)
		classes[in].add(q, stalled)
		parts[q.Kept][in].add(q, stalled)
		if q.Start-q.Due > tooLate {
			rep.Late++
		}
	}
	rep.All, rep.WarmUp, rep.Calm, rep.Disturbed = all.stats(), classes[warming].stats(), classes[calm].stats(), classes[disturbed].stats()
	rep.New = Pair{parts[false][calm].stats(), parts[false][disturbed].stats()}
	rep.Kept = Pair{parts[true][calm].stats(), parts[true][disturbed].stats()}
	rep.Kinds = []KindCount{}
	for k := OK + 1; k < kinds; k++ {
		if l.counts[k] > 0 {
			rep.Kinds = append(rep.Kinds, KindCount{k, l.counts[k], l.examples[k]})
		}
	}
	r.countExecuted(ctx, rep)
	r.judge(rep, interrupted, parts)
	return rep
}

// countExecuted asks what the service has executed.
func (r *run) countExecuted(ctx context.Context, rep *Report) {
	if r.config.Executed == nil {
		return
	}
	ids, err := r.config.Executed(ctx)
	if err != nil {
		rep.executedUnknown = err.Error()
		return
	}
	times, others := r.load.executions(ids)
	if len(times) == 0 {
		rep.executedUnknown = fmt.Sprintf("it reported %s of other runs, and none of this one", count(others, "id"))
		return
	}
	if answered := rep.All.Requests - rep.All.Failed; len(times) < answered {
		rep.Notes = append(rep.Notes, fmt.Sprintf("the service reported the ids of %s, and answered %s: of the others it is not known whether they were executed twice",
			count(len(times), "request"), number(answered)))
	}
	rep.ExecutedKnown = true
	for _, n := range times {
		if n > 1 {
			rep.ExecutedTwice++
		}
	}
}

func (l *load) answerers() []Answerer {
	all := make([]Answerer, len(l.answered))
	for i, name := range l.answered {
		all[i] = Answerer{Name: name, First: -1}
	}
	for _, q := range l.requests {
		if q.who < 0 {
			continue
		}
		a := &all[q.who]
		a.Requests++
		a.Last = max(a.Last, q.End)
		if a.First < 0 || q.End < a.First {
			a.First = q.End
		}
	}
	slices.SortFunc(all, func(a, b Answerer) int { return int(a.First - b.First) })
	return all
}

// describe names what is spoken.
func (t *target) describe() string {
	name := map[protocol]string{http1: "HTTP/1.1", http2: "HTTP/2", plain: "plain connections"}[t.protocol]
	if t.tls != nil {
		name += " over TLS"
	}
	return name
}

// WriteJSON writes the report as one object.
func (rep *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(rep)
}

// round shortens a duration to what a person wants to know.
func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > 100*time.Millisecond:
		return d.Round(time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(10 * time.Microsecond)
}

// number is n with its thousands apart.
func number(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count is "1 thing" or "n things".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return number(n) + " " + thing + "s"
}
