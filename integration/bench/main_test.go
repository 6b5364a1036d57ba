// Package bench measures what the supervisor costs, beside the same thing without it, in one run:
//
//	go test ./integration/bench -run '^$' -bench . -benchtime 10x -timeout 60m
//
// Nothing is asserted: a figure depends on the machine, and a ratio in the same run is what can be compared. What came of it is in
// docs/performance.md.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/build"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// programs are what is measured. TestMain sets it.
var programs *build.Programs

func TestMain(m *testing.M) {
	if to := os.Getenv(reportEnv); to != "" {
		service(now(), to)
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if programs, err = build.New(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer programs.Close()
	return m.Run()
}

// supervisor is a supervisor that runs, with a service.
type supervisor struct {
	b      *testing.B
	cmd    *exec.Cmd
	client *control.Client
	log    strings.Builder // complete once it has ended
}

// supervise starts a supervisor for a command, with so many sockets, each on a port that the kernel chooses, and stops it at the end of
// the benchmark. It does not wait for the service.
func supervise(b *testing.B, sockets int, environ []string, command ...string) *supervisor {
	b.Helper()
	var text strings.Builder
	for i := range sockets {
		fmt.Fprintf(&text, "[[socket]]\nname = \"s%d\"\nlisten = \"tcp://127.0.0.1:0\"\n", i)
	}
	return superviseWith(b, text.String(), environ, command...)
}

// superviseWith does it with tables of the configuration.
func superviseWith(b *testing.B, tables string, environ []string, command ...string) *supervisor {
	b.Helper()
	program, err := programs.Supervisor(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	quoted, err := json.Marshal(command) // an array of strings is the same in TOML
	if err != nil {
		b.Fatal(err)
	}
	text := fmt.Sprintf("name = \"bench\"\ncommand = %s\nruntime-directory = %q\nstate-directory = %q\n%s", quoted, dir, dir, tables)
	config := filepath.Join(dir, "bench.toml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	s := &supervisor{b: b, client: control.NewClient(filepath.Join(dir, control.SocketName))}
	s.cmd = exec.Command(program, "run", "--config", config)
	s.cmd.Env = environ
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		s.cmd.Process.Signal(unix.SIGTERM)
		s.cmd.Wait()
		if b.Failed() {
			b.Log(s.log.String())
		}
	})
	return s
}

// until asks for the status until it is as wanted.
func (s *supervisor) until(what string, ok func(*control.Status) bool) *control.Status {
	s.b.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if st, err := s.client.Status(context.Background()); err == nil && ok(st) {
			return st
		}
	}
	s.b.Fatalf("not seen: %s", what)
	return nil
}

// alone waits until one generation is live and no other is there.
func (s *supervisor) alone() *control.Status {
	s.b.Helper()
	return s.until("one live generation", func(st *control.Status) bool {
		return len(st.Generations) == 1 && st.Generations[0].Role == upgrade.RoleLive && st.Current == nil
	})
}

// reload makes one handoff.
func (s *supervisor) reload() *upgrade.Record {
	s.b.Helper()
	r, err := s.client.Reload(context.Background(), 0, func(upgrade.Progress) {})
	if err != nil {
		s.b.Fatal(err)
	}
	return r
}

// testservice is the path of the service.
func testservice(b *testing.B) string {
	b.Helper()
	path, err := programs.Service(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	return path
}

// quantile sorts all, and returns what the share q of it does not exceed.
func quantile[T time.Duration | float64](all []T, q float64) T {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}

// spread reports the median, the smallest and the largest of what several runs have given, each multiplied by scale.
func spread[T time.Duration | float64](b *testing.B, all []T, scale float64, name string) {
	b.ReportMetric(float64(quantile(all, 0.5))*scale, name+"-median")
	b.ReportMetric(float64(quantile(all, 0))*scale, name+"-min")
	b.ReportMetric(float64(quantile(all, 1))*scale, name+"-max")
}

// milliseconds is the scale of times.
const milliseconds = 1e-6
