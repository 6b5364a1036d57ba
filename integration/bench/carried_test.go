package bench

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/keptload"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
)

const carriedTables = `[handoff]
keepalive = "carry"
[[socket]]
name = "s0"
listen = "tcp://127.0.0.1:0"
protocol = "http/1"
`

// BenchmarkCarried measures what a request costs that comes on a connection that was carried over, beside an ordinary one on the same connection
// before. It is the time of the relay alone: the connections are idle while the service is handed off.
func BenchmarkCarried(b *testing.B) {
	s := superviseWith(b, carriedTables, nil, testservice(b), "-serve=http")
	const n = 50
	had := 0
	var ordinary, carried []time.Duration
	ask := func(conns []net.Conn) (took []time.Duration) {
		for _, c := range conns {
			began := time.Now()
			if err := exchange(c); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(began))
		}
		return took
	}
	for b.Loop() {
		conns := connect(b, s.address(), n)
		ordinary = append(ordinary, ask(conns)...)
		s.reload()
		had += n
		s.until("all carried over", func(st *control.Status) bool { return st.Carried != nil && st.Carried.Carried == had })
		carried = append(carried, ask(conns)...)
		for _, c := range conns {
			c.Close()
		}
		s.alone()
	}
	reportBeside(b, ordinary, carried)
}

// BenchmarkCarriedUnderLoad measures the same with requests that come all the time, and so wait while their connections are parked.
func BenchmarkCarriedUnderLoad(b *testing.B) {
	s := superviseWith(b, carriedTables, nil, testservice(b), "-serve=http")
	l := keptload.Start(keptload.Config{Address: s.address(), Clients: 50, Least: time.Millisecond, Most: 50 * time.Millisecond})
	defer l.Stop()
	for b.Loop() {
		s.reload()
		s.alone()
	}
	r := l.Stop()
	if r.Failed > 0 {
		b.Errorf("%s", r)
	}
	reportBeside(b, r.Ordinary.All, r.Last)
}

func reportBeside(b *testing.B, ordinary, carried []time.Duration) {
	b.ReportMetric(0, "ns/op") // what a turn takes says nothing
	report(b, ordinary, "ordinary")
	report(b, carried, "carried")
	for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99} {
		b.ReportMetric(float64(quantile(carried, q))/float64(quantile(ordinary, q)), name+"-ratio")
	}
}

// address is where the only socket listens.
func (s *supervisor) address() string {
	s.b.Helper()
	return strings.TrimPrefix(s.alone().Sockets[0].Address, "tcp://")
}
