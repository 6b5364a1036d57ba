package integration_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/machine"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
)

const (
	bootLimit = 60 * time.Second
	stopLimit = 30 * time.Second
	// runLimit is for one command inside that should end by itself.
	runLimit = 60 * time.Second
)

// testMachine is a machine for one test: whatever goes wrong in its own working fails the test.
type testMachine struct {
	*machine.Machine
	t    *testing.T
	logs []string // units whose journals belong into the log of a failed test
}

// boot boots a machine for the test, and stops it in order when the test is over. Where that is not possible on this host, the
// test is skipped.
func boot(t *testing.T, r rootfs.Recipe) *testMachine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("booting systemd needs root")
	}
	root, err := r.Use(rootfs.Cache())
	if errors.Is(err, rootfs.ErrNotBuilt) {
		t.Skipf("%v: run integration/test.sh as root, it builds it", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), bootLimit)
	defer cancel()
	m, err := machine.Boot(ctx, machine.Options{Root: root.Dir, Hostname: r.Suite})
	if err != nil {
		t.Fatal(err)
	}
	tm := &testMachine{Machine: m, t: t}
	t.Cleanup(tm.end)
	return tm
}

// end logs the journals if the test has failed, and stops the machine.
func (m *testMachine) end() {
	// The context of the test is over by now.
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if !m.t.Failed() {
		if err := m.Stop(ctx); err != nil {
			m.t.Error(err)
		}
		return
	}
	units := m.logs
	if len(units) == 0 {
		units = []string{""}
	}
	for _, unit := range units {
		journal, err := m.Journal(ctx, unit)
		m.t.Logf("journal of %q: %v\n%s", unit, err, journal)
	}
	if err := m.Kill(); err != nil {
		m.t.Error(err)
	}
}

// run runs a command inside, whatever its exit status.
func (m *testMachine) run(argv ...string) machine.Result {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), runLimit)
	defer cancel()
	r, err := m.Run(ctx, argv...)
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

// must runs a command inside that has to succeed, and returns what it wrote to standard output.
func (m *testMachine) must(argv ...string) string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), runLimit)
	defer cancel()
	out, err := m.Output(ctx, argv...)
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// write writes a file inside.
func (m *testMachine) write(path, content string) {
	m.t.Helper()
	if err := m.WriteFile(m.t.Context(), path, []byte(content), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// install copies a program of the host into the machine.
func (m *testMachine) install(host, path string) {
	m.t.Helper()
	if err := m.CopyFile(m.t.Context(), host, path, 0o755); err != nil {
		m.t.Fatal(err)
	}
}

// unit makes a unit known. Its journal is logged if the test fails.
func (m *testMachine) unit(name, text string) {
	m.t.Helper()
	m.logs = append(m.logs, name)
	if err := m.InstallUnit(m.t.Context(), name, text); err != nil {
		m.t.Fatal(err)
	}
}

// show returns one property of a unit.
func (m *testMachine) show(unit, property string) string {
	m.t.Helper()
	values, err := m.Show(m.t.Context(), unit, property)
	if err != nil {
		m.t.Fatal(err)
	}
	value, ok := values[property]
	if !ok {
		m.t.Fatalf("systemd does not know the property %s", property)
	}
	return value
}

// onEach runs the test on a machine of each systemd, all at once as far as there are processors.
func onEach(t *testing.T, test func(t *testing.T, m *testMachine)) {
	t.Helper()
	t.Parallel()
	for _, r := range rootfs.All() {
		t.Run(r.Suite, func(t *testing.T) {
			t.Parallel()
			test(t, boot(t, r))
		})
	}
}

// onOne runs a test in a machine of the first distribution alone, where systemd's version makes no difference.
func onOne(t *testing.T, test func(t *testing.T, m *testMachine)) {
	t.Helper()
	t.Parallel()
	test(t, boot(t, rootfs.All()[0]))
}
