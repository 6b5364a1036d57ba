package integration_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
)

// TestBoot shows that each machine runs the systemd that it is there for, undisturbed.
func TestBoot(t *testing.T) {
	t.Parallel()
	for _, r := range rootfs.All() {
		t.Run(r.Suite, func(t *testing.T) {
			t.Parallel()
			m := boot(t, r)
			if got := m.must("systemctl", "--version"); !strings.HasPrefix(got, fmt.Sprintf("systemd %d ", r.Systemd)) {
				t.Errorf("want systemd %d, got %q", r.Systemd, got)
			}
			// "degraded" would be good enough for the other tests, but then something does not start that might matter one day.
			if got := m.run("systemctl", "is-system-running", "--wait"); strings.TrimSpace(got.Stdout) != "running" {
				t.Errorf("the system is %s\n%s", got, m.must("systemctl", "--failed"))
			}
			if got := m.must("hostname"); got != r.Suite {
				t.Errorf("host name %q", got)
			}
			if got := m.must("ip", "-brief", "address", "show", "dev", "lo"); !strings.Contains(got, "127.0.0.1/8") || !strings.Contains(got, "::1/128") {
				t.Errorf("lo has %q", got)
			}
		})
	}
}

// TestNotifyUnit starts a unit that says when it is ready, and looks at it in all the ways that the harness has.
func TestNotifyUnit(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		m.unit("probe.service", `[Service]
Type=notify
NotifyAccess=all
ExecStart=/bin/sh -c 'echo hello from the probe; systemd-notify --ready --status=fine; exec sleep infinity'
`)
		m.must("systemctl", "start", "probe.service")
		for property, want := range map[string]string{"ActiveState": "active", "StatusText": "fine", "NRestarts": "0", "Type": "notify"} {
			if got := m.show("probe.service", property); got != want {
				t.Errorf("%s is %q, want %q", property, got, want)
			}
		}
		processes, err := m.UnitProcesses("probe.service")
		if err != nil {
			t.Fatal(err)
		}
		if len(processes) != 1 || processes[0].Name != "sleep" || fmt.Sprint(processes[0].Pid) != m.show("probe.service", "MainPID") {
			t.Errorf("processes of the unit: %+v", processes)
		}
		journal, err := m.Journal(t.Context(), "probe.service")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(journal, "hello from the probe") {
			t.Errorf("the journal lacks what the unit wrote:\n%s", journal)
		}
		if got := m.run("systemctl", "start", "missing.service"); got.Status == 0 || !strings.Contains(got.Stderr, "not found") {
			t.Errorf("start of a missing unit: %s", got)
		}
	})
}
