package drill

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// hostile is a report in which everything that a service or a user says looks like markup.
func hostile() *Report {
	const evil = `</script><img src=x onerror=alert(1)>`
	rep := &Report{
		Version: ReportVersion, Verdict: Lost, Reason: evil, URL: evil, Took: 2 * time.Second, Notes: []string{evil},
		Handoffs: []*Handoff{{Number: 1, From: time.Second, To: 1500 * time.Millisecond, New: []string{evil}, Error: evil,
			Steps: []Step{{evil, time.Second}}}},
		Answered: []Answerer{{Name: evil, Last: time.Second}},
		Kinds:    []KindCount{{ReadReset, 1, evil}},
	}
	for i := range 40_000 {
		at := time.Duration(i) * 50 * time.Microsecond
		rep.Requests = append(rep.Requests, Request{Due: at, Start: at, End: at + time.Millisecond})
	}
	rep.Requests[7].Kind = ReadReset
	rep.All, rep.Calm = Stats{Requests: 40_000, Failed: 1}, Stats{Requests: 40_000, P99: time.Millisecond}
	return rep
}

// Nothing that somebody else says becomes part of the page, and the page stays small.
func TestHTML(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := hostile().WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if strings.Contains(page, "<img") || strings.Count(page, "</script>") != 1 || strings.Contains(page, pageMark) {
		t.Error("a text has become markup")
	}
	if strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Error("the page needs something from elsewhere")
	}
	if len(page) > 1<<20 {
		t.Errorf("%d bytes", len(page))
	}
	_, rest, _ := strings.Cut(page, "const page = ")
	var data struct{ Points [][4]float64 }
	if err := json.NewDecoder(strings.NewReader(rest)).Decode(&data); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, p := range data.Points {
		if Kind(p[2]) == ReadReset {
			failed++
		}
	}
	if failed != 1 || len(data.Points) > maxPoints {
		t.Errorf("%d points, %d of them failed", len(data.Points), failed)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, rep := range []*Report{hostile(), {Verdict: Inconclusive}} {
		var b strings.Builder
		if err := rep.WriteText(&b, false); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "\x1b") || !strings.HasPrefix(b.String(), string(rep.Verdict)+": ") {
			t.Errorf("%s", &b)
		}
		for line := range strings.Lines(b.String()) {
			if strings.Contains(line, "│") && len([]rune(line)) > 100 {
				t.Errorf("too wide: %s", line)
			}
		}
	}
}
