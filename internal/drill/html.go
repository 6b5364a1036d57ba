package drill

import (
	_ "embed"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"
)

//go:embed report.html
var pageText string

// pageMark is where the data goes.
const pageMark = "/*PAGE*/"

// maxPoints bounds the points in the page's chart. Failures and the slowest are kept rather than others.
const maxPoints = 12_000

// WriteHTML writes the report as one page that needs nothing else. The page has the report as JSON, and shows it by itself: a template
// would cost every start of the program.
func (rep *Report) WriteHTML(w io.Writer) error {
	data := struct {
		Report  *Report      `json:"report"`
		Points  [][4]float64 `json:"points"` // when due and latency in ms, kind, kept
		Sampled bool         `json:"sampled"`
		Remarks []string     `json:"remarks"`
		Kinds   []string     `json:"kinds"`
	}{Report: rep, Points: [][4]float64{}, Remarks: append([]string{}, rep.remarks()...), Kinds: kindNames[:]}
	points := rep.points()
	data.Sampled = len(points) < len(rep.Requests)
	for _, q := range points {
		kept := 0.0
		if q.Kept {
			kept = 1
		}
		data.Points = append(data.Points, [4]float64{toMillis(q.Due), toMillis(q.Latency()), float64(q.Kind), kept})
	}
	text, err := json.Marshal(data) // which escapes what could end the script
	if err != nil {
		return err
	}
	before, after, _ := strings.Cut(pageText, pageMark)
	_, err = io.WriteString(w, before+string(text)+after)
	return err
}

// toMillis has a hundredth of a millisecond at the least.
func toMillis(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)/(10*time.Microsecond)) / 100
}

// points are the requests for the chart.
func (rep *Report) points() []*Request {
	notable := func(q *Request) bool { return q.Kind != OK || q.Latency() > rep.Calm.P99 }
	var rest, chosen []*Request
	for i := range rep.Requests {
		if q := &rep.Requests[i]; notable(q) {
			chosen = append(chosen, q)
		} else {
			rest = append(rest, q)
		}
	}
	chosen = append(thin(chosen, maxPoints/2), thin(rest, maxPoints/2)...)
	slices.SortFunc(chosen, func(a, b *Request) int { return int(a.Due - b.Due) })
	return chosen
}

// thin leaves at most about n of all, evenly.
func thin[T any](all []T, n int) []T {
	if len(all) <= n {
		return all
	}
	every := (len(all) + n - 1) / n
	var left []T
	for i := 0; i < len(all); i += every {
		left = append(left, all[i])
	}
	return left
}
