package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/machine"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

const (
	supervisorPath = "/usr/bin/zddsupervisor"
	servicePath    = "/usr/local/bin/testservice"
	configPath     = "/etc/zddsupervisor/svc.toml"
	unitName       = "svc.service"
	// address is where the services of all tests listen. Each machine has a network of its own.
	address = "127.0.0.1:8080"
)

// supervised is a machine with a supervisor, which has a service.
type supervised struct {
	*testMachine
}

// config is a configuration for the testservice with these flags.
func config(flags ...string) string {
	command := []string{strconv.Quote(servicePath)}
	for _, f := range flags {
		command = append(command, strconv.Quote(f))
	}
	return fmt.Sprintf(`name = "svc"
command = [%s]

[[socket]]
name = "http"
listen = "tcp://%s"

[ready]
timeout = "20s"

[drain]
timeout = "10s"
`, strings.Join(command, ", "), address)
}

// supervise puts the supervisor, the testservice and a configuration into the machine, with the unit that the supervisor itself prints.
// Nothing is started.
func supervise(t *testing.T, m *testMachine, config string) *supervised {
	t.Helper()
	for path, compile := range map[string]func(context.Context) (string, error){
		supervisorPath: programs.Supervisor, servicePath: programs.Service,
	} {
		program, err := compile(context.Background()) // not the context of whichever test comes first
		if err != nil {
			t.Fatal(err)
		}
		m.install(program, path)
	}
	m.write(configPath, config)
	s := &supervised{m}
	s.unit(unitName, s.must(supervisorPath, "unit", "--config", configPath))
	return s
}

// status is what "zddsupervisor status" tells.
func (s *supervised) status() upgrade.Status {
	s.t.Helper()
	var st upgrade.Status
	if err := json.Unmarshal([]byte(s.must(supervisorPath, "status", "--json")), &st); err != nil {
		s.t.Fatal(err)
	}
	return st
}

// live is the pid of the generation that serves, or 0.
func (s *supervised) live() int {
	s.t.Helper()
	for _, g := range s.status().Generations {
		if g.Role == upgrade.RoleLive {
			return g.PID
		}
	}
	return 0
}

// answers is the version that answers a request, or what curl says.
func (s *supervised) answers() string {
	s.t.Helper()
	r := s.run("curl", "--silent", "--show-error", "--max-time", "10", "http://"+address+"/")
	if r.Status != 0 {
		return r.String()
	}
	version, _, _ := strings.Cut(r.Stdout, " ")
	return version
}

// expect compares properties of the unit.
func (s *supervised) expect(when string, want map[string]string) {
	s.t.Helper()
	got, err := s.Show(s.t.Context(), unitName, slices.Collect(maps.Keys(want))...)
	if err != nil {
		s.t.Fatal(err)
	}
	for property, value := range want {
		if got[property] != value {
			s.t.Errorf("%s: %s is %q, want %q", when, property, got[property], value)
		}
	}
}

// eventually waits until a condition holds that nothing tells of.
func (s *supervised) eventually(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(runLimit); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited %s in vain: %s", runLimit, what)
		}
	}
}

// reload runs "systemctl reload", bounded by runLimit: some versions of systemd would wait for ever for a notification that is missing.
func (s *supervised) reload() machine.Result {
	s.t.Helper()
	return s.run("systemctl", "reload", unitName)
}

// backgroundRate is how many requests a second go on beside what a test does: enough to see a gap of some milliseconds, and not so many
// that nothing else gets to run.
const backgroundRate = 500

// load starts a load client in the machine's network. It is stopped by the test, or else at its end.
func (s *supervised) load(c load.Config) *runningLoad {
	s.t.Helper()
	if c.Address == "" {
		c.Address = address
	}
	if c.Duration == 0 {
		c.Duration = 10 * time.Minute
	}
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := s.NetworkCommand(context.Background(), self)
	cmd.Env = append(os.Environ(), loadEnv+"=1")
	cmd.Stderr = os.Stderr
	remote, err := load.StartRemote(cmd, c)
	if err != nil {
		s.t.Fatal(err)
	}
	l := &runningLoad{s: s, remote: remote}
	s.t.Cleanup(func() {
		if !l.stopped {
			_, _ = remote.Stop()
		}
	})
	return l
}

// runningLoad is a load client that runs through handoffs.
type runningLoad struct {
	s        *supervised
	remote   *load.Remote
	handoffs []load.Interval
	stopped  bool
}

// versions blocks until so many versions have answered.
func (l *runningLoad) versions(n int) {
	l.s.t.Helper()
	ctx, cancel := context.WithTimeout(l.s.t.Context(), runLimit)
	defer cancel()
	if err := l.remote.Versions(ctx, n); err != nil {
		l.s.t.Fatalf("waiting until %d versions have answered: %v", n, err)
	}
}

// handoff makes one by "systemctl reload" and waits until the new version has answered.
func (l *runningLoad) handoff() {
	l.s.t.Helper()
	begin := time.Now()
	if r := l.s.reload(); r.Status != 0 {
		l.s.t.Fatalf("reload: %s", r)
	}
	l.handoffs = append(l.handoffs, load.Interval{From: begin, To: time.Now()})
	l.versions(len(l.handoffs) + 1)
}

// stop ends the load and returns what came of it.
func (l *runningLoad) stop() *load.Result {
	l.s.t.Helper()
	l.stopped = true
	r, err := l.remote.Stop()
	if err != nil {
		l.s.t.Fatal(err)
	}
	return r
}
