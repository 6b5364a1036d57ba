package child_test

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// BenchmarkStart compares a start through the shim with a bare fork and exec of the
// same program, one after the other so that both see the same machine. What counts
// is the program's first instruction: it is /bin/true, whose whole life is measured
// in both.
func BenchmarkStart(b *testing.B) {
	r := newReaper(b)
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	var bare, shim []time.Duration
	for b.Loop() {
		began := time.Now()
		pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Files: []uintptr{null.Fd(), 1, 2}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			b.Fatal(err)
		}
		bare = append(bare, time.Since(began))

		began = time.Now()
		p, err := r.Start(b.Context(), child.Command{Path: "/bin/true"})
		if err != nil {
			b.Fatal(err)
		}
		<-p.Done()
		shim = append(shim, time.Since(began))
		p.Close()
	}
	report := func(name string, d []time.Duration) time.Duration {
		slices.Sort(d)
		median := d[len(d)/2]
		b.ReportMetric(float64(median.Microseconds()), name+"-p50-us")
		b.ReportMetric(float64(d[len(d)*99/100].Microseconds()), name+"-p99-us")
		return median
	}
	without := report("bare", bare)
	with := report("shim", shim)
	b.ReportMetric(float64((with - without).Microseconds()), "overhead-us")
	b.ReportMetric(0, "ns/op")
}
