package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// timed are the steps whose times are told.
var timed = []string{upgrade.Opening.String(), upgrade.Starting.String(), upgrade.Cutting.String(), upgrade.Settling.String()}

// stepTimes collects the times of steps over several handoffs.
type stepTimes map[string][]time.Duration

func (s stepTimes) add(r *upgrade.Record) {
	for _, step := range r.Steps {
		s[step.Name] = append(s[step.Name], step.Took)
	}
	s["handoff"] = append(s["handoff"], r.Took)
}

func (s stepTimes) report(b *testing.B) {
	for _, name := range append(timed, "handoff") {
		b.ReportMetric(float64(quantile(s[name], 0.5))*milliseconds, name+"-ms")
		b.ReportMetric(float64(quantile(s[name], 1))*milliseconds, name+"-max-ms")
	}
	b.ReportMetric(0, "ns/op") // what a turn takes says nothing
}

// BenchmarkSockets measures the steps of a handoff, with nothing else going on, by the number of its sockets. The first time that all
// of them are opened is told apart: in a handoff they are only looked at.
func BenchmarkSockets(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := supervise(b, n, nil, testservice(b))
			first := stepTimes{}
			first.add(s.alone().Last)
			times := stepTimes{}
			for b.Loop() {
				times.add(s.reload())
				s.alone()
			}
			times.report(b)
			b.ReportMetric(float64(quantile(first[timed[0]], 0.5))*milliseconds, "first-open-ms")
		})
	}
}

// BenchmarkIdle measures the same by the number of connections that the old generation has, each of which has had one answer.
func BenchmarkIdle(b *testing.B) {
	for _, n := range []int{0, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := supervise(b, 1, nil, testservice(b), "-serve=http")
			address := strings.TrimPrefix(s.alone().Sockets[0].Address, "tcp://")
			times := stepTimes{}
			for b.Loop() {
				idle := connect(b, address, n)
				times.add(s.reload())
				s.alone()
				for _, c := range idle {
					c.Close()
				}
			}
			times.report(b)
		})
	}
}

// connect opens connections and has a request answered on each.
func connect(b *testing.B, address string, n int) []net.Conn {
	b.Helper()
	const workers = 16
	open := make([]net.Conn, n)
	errs := make(chan error, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := w; i < n; i += workers {
				c, err := net.Dial("tcp", address)
				if err == nil {
					open[i] = c
					err = exchange(c)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	all.Wait()
	select {
	case err := <-errs:
		b.Fatal(err)
	default:
	}
	return open
}

// exchange has one request answered on a connection that stays.
func exchange(c net.Conn) error {
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: bench\r\n\r\n"); err != nil {
		return err
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	return err
}
