package metrics

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/zddsupervisor/zddsupervisor/internal/carry"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A Source says what is so now; an *upgrade.Supervisor is one.
type Source interface {
	Status(ctx context.Context) (*upgrade.Status, error)
}

const (
	// statusLimit bounds how long a scrape waits for the status.
	statusLimit = 5 * time.Second
	// scrapesMost is how many may be under way at once.
	scrapesMost = 4
)

// Handler answers scrapes, with what source says beside what was counted. It is for one source, and to be called once.
func (m *Metrics) Handler(source Source) http.Handler {
	s := &scraper{metrics: m, source: source, descs: make(map[string]desc)}
	for _, d := range Definitions() {
		if m.counted[d.Name] {
			continue
		}
		kind := prometheus.GaugeValue
		if d.Kind == Counter {
			kind = prometheus.CounterValue
		}
		s.descs[strings.TrimPrefix(d.Name, prefix)] = desc{prometheus.NewDesc(d.Name, d.Help, d.Labels, nil), kind}
	}
	m.registry.MustRegister(s)
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesMost})
}

// A desc is a metric that is made for each scrape.
type desc struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// A scraper is a prometheus.Collector that makes metrics of the supervisor's status.
type scraper struct {
	metrics *Metrics
	source  Source
	descs   map[string]desc
}

// Describe is prometheus.Collector's.
func (s *scraper) Describe(all chan<- *prometheus.Desc) {
	for _, d := range s.descs {
		all <- d.desc
	}
	s.metrics.unsettled.Describe(all)
}

// Collect is prometheus.Collector's. It blocks for statusLimit, and for as long as the source takes to notice that nobody waits any more: one that
// is stuck in the kernel, in a look at /proc for example, does not notice.
func (s *scraper) Collect(all chan<- prometheus.Metric) {
	put := func(name string, value float64, labels ...string) {
		d := s.descs[name]
		for i, l := range labels {
			labels[i] = label(l)
		}
		all <- prometheus.MustNewConstMetric(d.desc, d.kind, value, labels...)
	}
	put("info", 1, s.metrics.name, s.metrics.version)
	defer s.metrics.unsettled.Collect(all)
	ctx, cancel := context.WithTimeout(context.Background(), statusLimit)
	defer cancel()
	st, err := s.source.Status(ctx)
	put("status_known", oneIf(err == nil))
	if err != nil { // it is stopping, or too busy; what was counted is told all the same
		return
	}
	put("start_time_seconds", unixTime(st.Since))
	put("strays_total", float64(st.Strays))
	putHandoffs(st, put)
	putGenerations(st, put)
	seen := make(map[string]bool)
	for _, socket := range st.Sockets {
		// From the first scrape on: a counter that appears with its first event is not seen to increase.
		s.metrics.unsettled.WithLabelValues(label(socket.Name))
		// One that could not be asked, as while the supervisor is being replaced, has no numbers: 0 would look like a counter that
		// begins anew. And a handoff may be about to put another one in a socket's place.
		if socket.Error == "" && !seen[socket.Name] {
			putSocket(socket, put)
			seen[socket.Name] = true
		}
	}
	var carried upgrade.Carried
	if st.Carried != nil {
		carried = *st.Carried
	}
	put("carried_connections_total", float64(carried.Carried))
	put("carried_requests_total", float64(carried.Relayed))
	put("carried_connections_lost_total", float64(carried.Lost))
	for _, why := range carry.Reasons() {
		put("carried_connections_left_total", float64(carried.Left[why]), string(why))
	}
	put("carry_given_up", oneIf(st.Uncarried != ""))
}

// put makes a metric of a value.
type put = func(name string, value float64, labels ...string)

func putHandoffs(st *upgrade.Status, put put) {
	if st.Current != nil {
		put("handoff_began_timestamp_seconds", unixTime(st.Current.Began))
	}
	put("last_handoff_failed", oneIf(st.Last != nil && st.Last.Outcome == upgrade.OutcomeFailed))
}

func putGenerations(st *upgrade.Status, put put) {
	live := 0
	roles := []upgrade.Role{upgrade.RoleNew, upgrade.RoleLive, upgrade.RoleDraining, upgrade.RoleFailed, upgrade.RoleCrashed}
	number, processes, connections := make(map[upgrade.Role]int), make(map[upgrade.Role]int), make(map[upgrade.Role]int)
	unknown := make(map[upgrade.Role]bool)
	for _, g := range st.Generations {
		number[g.Role]++
		processes[g.Role] += max(0, g.Processes)
		connections[g.Role] += max(0, g.Connections)
		unknown[g.Role] = unknown[g.Role] || g.Connections == upgrade.Unknown
		if g.Role == upgrade.RoleLive {
			live = g.Number
			put("live_info", 1, g.Release)
			if g.Live != nil {
				put("live_since_timestamp_seconds", unixTime(*g.Live))
			}
		}
	}
	put("live", oneIf(live != 0))
	put("live_generation", float64(live))
	for _, role := range roles {
		put("generations", float64(number[role]), string(role))
		put("generation_processes", float64(processes[role]), string(role))
		if !unknown[role] {
			put("generation_connections", float64(connections[role]), string(role))
		}
	}
}

func putSocket(s upgrade.SocketStatus, put put) {
	for _, m := range []struct {
		name  string
		value int
	}{
		{"socket_queue_length", s.Queue}, {"socket_queue_limit", s.QueueLimit}, {"socket_connections", s.Connections},
		{"socket_unread_bytes", s.Unread}, {"socket_dropped_packets_total", s.Dropped},
		{"socket_forwarded_connections_total", s.Forwarded}, {"socket_lost_connections_total", s.Lost}, {"socket_repairs_total", s.Repaired},
	} {
		if m.value != upgrade.Unknown {
			put(m.name, float64(m.value), s.Name)
		}
	}
	put("socket_shut_down", oneIf(s.ShutDown), s.Name)
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func unixTime(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }
