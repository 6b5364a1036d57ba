package bench

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// freeAddress returns one that nobody listens on now.
func freeAddress(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startBare starts a service without a supervisor, and waits until it answers. What it returns stops it.
func startBare(b *testing.B, address string, command ...string) (stop func()) {
	b.Helper()
	cmd := exec.Command(command[0], append(command[1:], "-bind="+address)...)
	// As the supervisor does it: the kernel's scheduler may share out the processors by sessions.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			b.Fatal("the bare service does not answer")
		}
	}
	return func() {
		cmd.Process.Signal(unix.SIGTERM)
		cmd.Wait()
	}
}

// BenchmarkThroughput sends requests over new connections, as fast as they are answered, to a service that is supervised and to the same
// one started bare, in turn. A turn is both, and what comes first changes.
func BenchmarkThroughput(b *testing.B) {
	const requests = 10_000
	command := []string{testservice(b), "-serve=http"}
	supervised := strings.TrimPrefix(supervise(b, 1, nil, command...).alone().Sockets[0].Address, "tcp://")
	bare := freeAddress(b)
	defer startBare(b, bare, command...)()
	perSecond := func(address string) float64 {
		client, err := load.Start(context.Background(), load.Config{Address: address, Workers: 8, MaxRequests: requests})
		if err != nil {
			b.Fatal(err)
		}
		<-client.Done()
		r := client.Stop()
		if r.Failed() > 0 {
			b.Fatal(r)
		}
		return float64(len(r.Requests)) / r.Requests[len(r.Requests)-1].End.Seconds()
	}
	perSecond(supervised)
	perSecond(bare)
	var ratios, rates []float64
	for turn := 0; b.Loop(); turn++ {
		order := []string{supervised, bare}
		if turn%2 == 1 {
			slices.Reverse(order)
		}
		got := map[string]float64{}
		for _, address := range order {
			got[address] = perSecond(address)
		}
		ratios = append(ratios, got[supervised]/got[bare])
		rates = append(rates, got[bare])
	}
	b.ReportMetric(0, "ns/op")
	spread(b, ratios, 1, "supervised/bare")
	b.ReportMetric(quantile(rates, 0.5), "bare-requests/s")
}

// BenchmarkTail sends requests over new connections at a constant rate, and tells the latencies of those that fell due while a handoff
// was under way, until the old version was gone, and of those of the time between. Since a new process costs something whoever starts
// it, a copy of the service is started and stopped beside it, too. A turn is one run of many handoffs.
func BenchmarkTail(b *testing.B) {
	const (
		rate     = 1000
		handoffs = 20
		calm     = 500 * time.Millisecond // between two
	)
	command := []string{testservice(b), "-serve=http"}
	s := supervise(b, 1, nil, command...)
	address := strings.TrimPrefix(s.alone().Sockets[0].Address, "tcp://")
	times := []string{"calm", "copy", "handoff"}
	quantiles := map[string]float64{"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
	latencies := map[string][]time.Duration{} // "calm p99", of each run
	ratios := map[string][]float64{}          // "handoff p99", of each run
	for b.Loop() {
		client, err := load.Start(context.Background(), load.Config{Address: address, Workers: 50, Rate: rate, Duration: 5 * time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		var busy = map[string][]load.Interval{}
		during := func(what string, do func()) {
			time.Sleep(calm)
			from := time.Now()
			do()
			busy[what] = append(busy[what], load.Interval{From: from, To: time.Now()})
		}
		for range handoffs {
			old := s.alone().Generations[0].PID
			during("handoff", func() { s.reload(); gone(b, old) })
			during("copy", func() { startBare(b, freeAddress(b), command...)() })
		}
		time.Sleep(calm)
		r := client.Stop()
		if r.Failed() > 0 {
			b.Fatal(r)
		}
		sorted := map[string][]time.Duration{}
		for _, q := range r.Requests {
			what := when(r.Begin.Add(q.Due), busy)
			sorted[what] = append(sorted[what], q.Latency())
		}
		for name, q := range quantiles {
			of := func(what string) time.Duration { return quantile(sorted[what], q) }
			for _, what := range times {
				latencies[what+" "+name] = append(latencies[what+" "+name], of(what))
				ratios[what+" "+name] = append(ratios[what+" "+name], float64(of(what))/float64(of("calm")))
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for name := range quantiles {
		for _, what := range times {
			spread(b, latencies[what+" "+name], milliseconds, fmt.Sprintf("%s-%s-ms", what, name))
			if what != "calm" {
				spread(b, ratios[what+" "+name], 1, fmt.Sprintf("%s/calm-%s", what, name))
			}
		}
	}
}

// gone waits until a process has ended and was waited for. To ask the supervisor would cost what is to be measured.
func gone(b *testing.B, pid int) {
	b.Helper()
	for end := time.Now().Add(time.Minute); unix.Kill(pid, 0) != unix.ESRCH; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("process %d does not end", pid)
		}
	}
}

// when tells what was going on at a time: "calm" if nothing was.
func when(at time.Time, busy map[string][]load.Interval) string {
	for what, intervals := range busy {
		for _, in := range intervals {
			if !at.Before(in.From) && !at.After(in.To) {
				return what
			}
		}
	}
	return "calm"
}
