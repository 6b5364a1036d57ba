package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// Metrics counts what a supervisor does. It is an upgrade.Observer.
type Metrics struct {
	name, version string
	registry      *prometheus.Registry
	counted       map[string]bool // the names of the metrics below

	handoffs, starts, ended, killed, unsettled *prometheus.CounterVec
	drainsKilled                               prometheus.Counter
	took, steps                                *prometheus.HistogramVec
	drained                                    prometheus.Histogram
}

// buckets are those of all times, in seconds: a step may take a millisecond, and a canary an hour.
var buckets = [...]float64{.001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// New returns metrics that nothing has happened to yet, of a supervisor of this name and version.
func New(name, version string) *Metrics {
	m := &Metrics{name: name, version: version, registry: prometheus.NewRegistry(), counted: make(map[string]bool)}
	all := make(map[string]Definition)
	for _, d := range Definitions() {
		all[d.Name] = d
	}
	counter := func(name string, values ...string) *prometheus.CounterVec {
		d := all[prefix+name]
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
		for _, v := range values { // what has not happened yet has happened 0 times
			c.WithLabelValues(v)
		}
		m.registry.MustRegister(c)
		m.counted[d.Name] = true
		return c
	}
	histogram := func(name string, values ...string) *prometheus.HistogramVec {
		d := all[prefix+name]
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: buckets[:]}, d.Labels)
		for _, v := range values {
			h.WithLabelValues(v)
		}
		m.registry.MustRegister(h)
		m.counted[d.Name] = true
		return h
	}
	outcomes := []string{string(upgrade.OutcomeDone), string(upgrade.OutcomeFailed)}
	m.handoffs, m.starts = counter("handoffs_total", outcomes...), counter("starts_total", outcomes...)
	ends := []string{string(upgrade.RoleDraining), string(upgrade.RoleFailed), string(upgrade.RoleCrashed)}
	m.ended, m.killed = counter("generations_ended_total", ends...), counter("killed_processes_total", ends...)
	d := all[prefix+"unsettled_connections_total"] // which a scrape collects when it knows the sockets
	m.unsettled = prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
	m.counted[d.Name] = true
	m.drainsKilled = counter("drains_killed_total").WithLabelValues()
	m.took, m.steps = histogram("handoff_duration_seconds", outcomes...), histogram("handoff_step_duration_seconds")
	m.drained = histogram("drain_duration_seconds").WithLabelValues().(prometheus.Histogram)
	return m
}

// HandoffEnded counts a handoff.
func (m *Metrics) HandoffEnded(r upgrade.Record) {
	outcome := string(r.Outcome)
	if r.Restart {
		m.starts.WithLabelValues(outcome).Inc()
	} else {
		m.handoffs.WithLabelValues(outcome).Inc()
		m.took.WithLabelValues(outcome).Observe(r.Took.Seconds())
	}
	for _, s := range r.Steps {
		m.steps.WithLabelValues(s.Name).Observe(s.Took.Seconds())
	}
	for _, u := range r.Unsettled {
		m.unsettled.WithLabelValues(label(u.Socket)).Add(float64(u.Queued + u.Handshakes + u.Unread + u.Young))
	}
}

// GenerationGone counts the end of a generation.
func (m *Metrics) GenerationGone(e upgrade.Ending) {
	role := string(e.Role)
	m.ended.WithLabelValues(role).Inc()
	m.killed.WithLabelValues(role).Add(float64(e.Killed))
	if e.Role != upgrade.RoleDraining {
		return
	}
	m.drained.Observe(e.Took.Seconds())
	if e.Killed > 0 {
		m.drainsKilled.Inc()
	}
}

// label is a label's value, which has to be UTF-8: a directory's name, for instance, may be anything.
func label(value string) string { return strings.ToValidUTF8(value, "\uFFFD") }
