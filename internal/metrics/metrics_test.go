package metrics_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/carry"
	"github.com/zddsupervisor/zddsupervisor/internal/metrics"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

var update = flag.Bool("update", false, "write docs/metrics.md from the code")

// fixed is a source that says always the same.
type fixed struct {
	st  *upgrade.Status
	err error
}

func (f fixed) Status(context.Context) (*upgrade.Status, error) { return f.st, f.err }

// scrape returns what a server gets.
func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, metrics.Path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// everything is a status and events of which every metric shows something.
func everything() (*metrics.Metrics, *upgrade.Status) {
	m := metrics.New("svc", "1.0")
	m.HandoffEnded(upgrade.Record{Restart: true, Outcome: upgrade.OutcomeDone, Took: time.Second})
	m.HandoffEnded(upgrade.Record{Outcome: upgrade.OutcomeDone, Took: time.Second, Steps: []upgrade.StepTime{{Name: "ready", Took: time.Second}}})
	failed := upgrade.Record{Outcome: upgrade.OutcomeFailed, Took: time.Second}
	failed.Unsettled = []upgrade.OpenSocket{{Socket: "http\xff"}}
	failed.Unsettled[0].Queued, failed.Unsettled[0].Young = 2, 3
	m.HandoffEnded(failed)
	m.GenerationGone(upgrade.Ending{Role: upgrade.RoleDraining, Took: time.Second, Killed: 2})
	m.GenerationGone(upgrade.Ending{Role: upgrade.RoleDraining, Took: time.Second})
	m.GenerationGone(upgrade.Ending{Role: upgrade.RoleCrashed, Killed: 1})
	live := time.Unix(1000, 0)
	return m, &upgrade.Status{
		Since: time.Unix(500, 0), Strays: 9, Current: &upgrade.Record{Began: time.Unix(2000, 0)}, Last: &failed,
		Generations: []upgrade.GenerationStatus{
			{Number: 4, Role: upgrade.RoleLive, Release: "v\xff", Live: &live, Processes: 3, Connections: 7},
			{Number: 3, Role: upgrade.RoleDraining, Processes: 2, Connections: upgrade.Unknown},
		},
		Sockets: []upgrade.SocketStatus{
			{Name: "http", Queue: 1, QueueLimit: 10, Connections: 7, Forwarded: 4, Lost: 1, Repaired: 2, Dropped: 3, Unread: upgrade.Unknown},
			{Name: "http", Queue: 5}, // that is to take its place
			{Name: "gone", Error: "file already closed"},
			{Name: "dns", Queue: upgrade.Unknown, QueueLimit: upgrade.Unknown, Connections: upgrade.Unknown, Unread: 100, Dropped: upgrade.Unknown, ShutDown: true},
		},
		Carried: &upgrade.Carried{Carried: 11, Relayed: 12, Lost: 13, Left: map[carry.Reason]int{carry.Shut: 14}}, Uncarried: "it shuts them down",
	}
}

func TestScrape(t *testing.T) {
	t.Parallel()
	m, st := everything()
	text := scrape(t, m.Handler(fixed{st: st}))
	for _, line := range []string{
		`zddsupervisor_info{name="svc",version="1.0"} 1`,
		`zddsupervisor_start_time_seconds 500`,
		`zddsupervisor_live 1`, `zddsupervisor_live_info{release="v` + "\uFFFD" + `"} 1`, `zddsupervisor_live_generation 4`, `zddsupervisor_live_since_timestamp_seconds 1000`,
		`zddsupervisor_generations{role="live"} 1`, `zddsupervisor_generations{role="new"} 0`, `zddsupervisor_generation_processes{role="draining"} 2`,
		`zddsupervisor_generation_connections{role="live"} 7`,
		`zddsupervisor_handoffs_total{outcome="done"} 1`, `zddsupervisor_handoffs_total{outcome="failed"} 1`, `zddsupervisor_starts_total{outcome="done"} 1`,
		`zddsupervisor_handoff_duration_seconds_count{outcome="done"} 1`, `zddsupervisor_handoff_step_duration_seconds_sum{step="ready"} 1`,
		`zddsupervisor_handoff_began_timestamp_seconds 2000`, `zddsupervisor_last_handoff_failed 1`,
		`zddsupervisor_generations_ended_total{role="draining"} 2`, `zddsupervisor_generations_ended_total{role="crashed"} 1`,
		`zddsupervisor_drain_duration_seconds_count 2`, `zddsupervisor_drains_killed_total 1`, `zddsupervisor_killed_processes_total{role="draining"} 2`,
		`zddsupervisor_unsettled_connections_total{socket="http` + "\uFFFD" + `"} 5`,
		`zddsupervisor_unsettled_connections_total{socket="http"} 0`, `zddsupervisor_unsettled_connections_total{socket="gone"} 0`, `zddsupervisor_status_known 1`,
		`zddsupervisor_socket_queue_length{socket="http"} 1`, `zddsupervisor_socket_queue_limit{socket="http"} 10`, `zddsupervisor_socket_connections{socket="http"} 7`,
		`zddsupervisor_socket_unread_bytes{socket="dns"} 100`, `zddsupervisor_socket_shut_down{socket="dns"} 1`, `zddsupervisor_socket_shut_down{socket="http"} 0`,
		`zddsupervisor_socket_dropped_packets_total{socket="http"} 3`, `zddsupervisor_socket_forwarded_connections_total{socket="http"} 4`,
		`zddsupervisor_socket_lost_connections_total{socket="http"} 1`, `zddsupervisor_socket_repairs_total{socket="http"} 2`,
		`zddsupervisor_carried_connections_total 11`, `zddsupervisor_carried_requests_total 12`, `zddsupervisor_carried_connections_lost_total 13`,
		`zddsupervisor_carried_connections_left_total{reason="shut"} 14`, `zddsupervisor_carried_connections_left_total{reason="busy"} 0`, `zddsupervisor_carry_given_up 1`,
		`zddsupervisor_strays_total 9`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%q is not in what is told", line)
		}
	}
	for _, no := range []string{`connections{role="draining"}`, `queue_length{socket="dns"}`, `dropped_packets_total{socket="dns"}`, `queue_length{socket="gone"}`, `shut_down{socket="gone"}`} {
		if strings.Contains(text, no) {
			t.Errorf("%s is told, and is not known", no)
		}
	}
	for _, d := range metrics.Definitions() {
		if want := fmt.Sprintf("# TYPE %s %s\n", d.Name, d.Kind); !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// A supervisor that does not answer any more does not keep what was counted.
func TestScrapeWithoutStatus(t *testing.T) {
	t.Parallel()
	m, _ := everything()
	text := scrape(t, m.Handler(fixed{err: errors.New("stopping")}))
	if !strings.Contains(text, `zddsupervisor_handoffs_total{outcome="done"} 1`) || !strings.Contains(text, "zddsupervisor_status_known 0\n") || strings.Contains(text, "zddsupervisor_live ") {
		t.Errorf("told:\n%s", text)
	}
}

// What promtool has against a name or a type is told here.
func TestPromtoolLikesTheMetrics(t *testing.T) {
	t.Parallel()
	m, st := everything()
	promtool(t, scrape(t, m.Handler(fixed{st: st})), "check", "metrics")
}

// An address that is taken is an error; a supervisor that follows another one gets its address, while that one answers.
func TestServerAndItsSuccessor(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	first, err := metrics.Listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	address := first.Addr().String()
	answer := func(version string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, version) })
	}
	one := metrics.Serve(first, answer("one"), log)
	if l, err := metrics.Listen(t.Context(), address, false); err == nil {
		l.Close()
		t.Error("the address of another one was taken")
	}
	second, err := metrics.Listen(t.Context(), address, true)
	if err != nil {
		t.Fatalf("a successor does not get it: %v", err)
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	two := metrics.Serve(second, answer("two"), log)
	defer two.Close()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]int{metrics.Path: 200, "/": 404} {
		r, err := client.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if r.StatusCode != want || want == 200 && string(body) != "two" {
			t.Errorf("%s: %s, %q", path, r.Status, body)
		}
	}
	if err := two.Close(); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("somebody answers after Close")
	}
}

const metricsPage = "../../docs/metrics.md"

// The reference is made from the table that the program works by.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- table: go test ./internal/metrics -run TestMetricsPage -update -->\n", "<!-- end of table -->"
	before, rest, found := strings.Cut(string(page), begin)
	_, after, foundEnd := strings.Cut(rest, end)
	if !found || !foundEnd {
		t.Fatalf("%s has no table", metricsPage)
	}
	var table strings.Builder
	table.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, d := range metrics.Definitions() {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", d.Name, d.Kind, strings.Join(d.Labels, ", "), d.Help)
	}
	want := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(metricsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("%s is not what the code does; run this test with -update", metricsPage)
	}
}

// names are those of metrics in an expression that there are not.
func unknownNames(expression string) (unknown []string) {
	known := make(map[string]bool)
	for _, d := range metrics.Definitions() {
		if known[d.Name] = true; d.Kind == metrics.Histogram {
			known[d.Name], known[d.Name+"_bucket"], known[d.Name+"_sum"], known[d.Name+"_count"] = false, true, true, true
		}
	}
	for _, name := range regexp.MustCompile(`zddsupervisor_[a-z_]+`).FindAllString(expression, -1) {
		if !known[name] && !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
