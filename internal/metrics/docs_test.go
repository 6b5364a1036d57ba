package metrics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/internal/metrics"
)

// promtool runs Prometheus's tool, which Debian's package prometheus has.
func promtool(t *testing.T, input string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("promtool is missing; Debian's package prometheus has it")
		}
		t.Skip("promtool is missing; Debian's package prometheus has it")
	}
	cmd := exec.Command(path, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// The alert rules are loaded, and each of them fires when it should.
func TestAlerts(t *testing.T) {
	t.Parallel()
	const rules = "../../docs/alerts.yml"
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	if unknown := unknownNames(string(text)); len(unknown) > 0 {
		t.Errorf("the rules name %v, which there are not", unknown)
	}
	cases, err := os.ReadFile("testdata/alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, name, ok := strings.Cut(line, "- alert: "); ok && !strings.Contains(string(cases), "alertname: "+name) {
			t.Errorf("no case tries %s", name)
		}
	}
	promtool(t, "", "check", "rules", rules)
	promtool(t, "", "test", "rules", "testdata/alerts_test.yml")
}

// dashboard is what this test has to know of Grafana's model.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		Targets []struct{ Expr string }
	}
	Annotations struct{ List []struct{ Expr string } }
	Templating  struct{ List []struct{ Query string } }
}

// The queries of the dashboard name metrics that there are, all of them, and Prometheus can parse them.
func TestDashboard(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	var queries []string
	ids := make(map[int]bool)
	for _, p := range d.Panels {
		if ids[p.ID] || len(p.Targets) == 0 {
			t.Errorf("panel %q has no query, or the number of another one", p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	for _, a := range d.Annotations.List {
		queries = append(queries, a.Expr)
	}
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for i, q := range queries {
		// What Grafana puts in.
		q = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(q)
		if unknown := unknownNames(q); len(unknown) > 0 {
			t.Errorf("%s: there is no %v", q, unknown)
		}
		fmt.Fprintf(&rules, "  - record: query_%d\n    expr: %q\n", i, q)
	}
	for _, v := range d.Templating.List {
		if unknown := unknownNames(v.Query); len(unknown) > 0 {
			t.Errorf("%s: there is no %v", v.Query, unknown)
		}
	}
	for _, def := range metrics.Definitions() {
		name := strings.TrimPrefix(def.Name, "zddsupervisor_")
		if !strings.Contains(string(text), def.Name) && name != "start_time_seconds" && name != "strays_total" {
			t.Errorf("%s is not on the dashboard", def.Name)
		}
	}
	path := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(path, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", path)
}
