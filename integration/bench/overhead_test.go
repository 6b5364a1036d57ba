package bench

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// reportEnv makes this program the service, and says where it reports to.
const reportEnv = "ZDD_BENCH_REPORT"

// now is CLOCK_MONOTONIC, which all processes share.
func now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// service reports when it first ran, when it was ready, and when it was told to stop.
func service(first time.Duration, to string) {
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	c, err := net.Dial("unixgram", to)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(c, "first %d", first)
	if address := os.Getenv("NOTIFY_SOCKET"); address != "" {
		manager, err := systemd.NewNotifier(address)
		if err != nil {
			panic(err)
		}
		ready := now()
		if err := manager.Ready(""); err != nil {
			panic(err)
		}
		fmt.Fprintf(c, "ready %d", ready)
		<-term
		fmt.Fprintf(c, "term %d", now())
	}
}

// reports is where services report to.
type reports struct {
	b    *testing.B
	conn *net.UnixConn
	path string
	seen map[string]time.Duration
}

func newReports(b *testing.B) *reports {
	path := filepath.Join(b.TempDir(), "r")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return &reports{b: b, conn: conn, path: path, seen: map[string]time.Duration{}}
}

// next waits for the report called what, and returns its time. Others that come before it are kept.
func (r *reports) next(what string) time.Duration {
	r.b.Helper()
	for {
		if at, ok := r.seen[what]; ok {
			delete(r.seen, what)
			return at
		}
		var buf [64]byte
		r.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, err := r.conn.Read(buf[:])
		if err != nil {
			r.b.Fatalf("wait for the report %q: %v", what, err)
		}
		var name string
		var at int64
		if _, err := fmt.Sscan(string(buf[:n]), &name, &at); err != nil {
			r.b.Fatal(err)
		}
		r.seen[name] = time.Duration(at)
	}
}

// BenchmarkOverhead measures, for each handoff, the time from the request for it to the new version's first instruction,
// and from the new version's READY=1 to the old one's stop signal; and, in turn with it, the time from a bare fork and
// exec of the same program to its first instruction.
func BenchmarkOverhead(b *testing.B) {
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	r := newReports(b)
	environ := append(os.Environ(), reportEnv+"="+r.path)

	s := supervise(b, 1, environ, self)
	r.next("first")
	r.next("ready")
	var toFirst, toStop, bare []time.Duration
	for b.Loop() {
		asked := now()
		s.reload()
		toFirst = append(toFirst, r.next("first")-asked)
		toStop = append(toStop, r.next("term")-r.next("ready"))

		plain := exec.Command(self)
		plain.Env = environ
		plain.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // as the supervisor does it, for the scheduler's sake
		forked := now()
		if err := plain.Start(); err != nil {
			b.Fatal(err)
		}
		bare = append(bare, r.next("first")-forked)
		plain.Wait()
	}
	b.ReportMetric(0, "ns/op") // what a turn takes says nothing
	report(b, toFirst, "request-to-first")
	report(b, bare, "bare-to-first")
	report(b, toStop, "ready-to-stop")
	b.ReportMetric(float64(quantile(toFirst, 0.5)-quantile(bare, 0.5))/1e6, "added-p50-ms")
	b.ReportMetric(float64(resident(b, s.cmd.Process.Pid))/1024, "resident-MiB")
}

func report(b *testing.B, all []time.Duration, name string) {
	b.ReportMetric(float64(quantile(all, 0.5))/1e6, name+"-p50-ms")
	b.ReportMetric(float64(quantile(all, 0.99))/1e6, name+"-p99-ms")
}

// resident is a process's resident memory in KiB.
func resident(b *testing.B, pid int) (kib int) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			fmt.Sscan(rest, &kib)
		}
	}
	return kib
}
