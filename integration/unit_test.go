package integration_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// asInstalled installs the supervisor and the testservice, and no unit.
func asInstalled(t *testing.T, m *testMachine) *supervised {
	t.Helper()
	s := supervise(t, m, config())
	s.must("rm", configPath, "/etc/systemd/system/"+unitName)
	s.must("systemctl", "daemon-reload")
	return s
}

// verify has systemd look at a unit. It exits with 0 in spite of what it does not understand, so it must not say anything.
func (s *supervised) verify(unit string) {
	s.t.Helper()
	if r := s.run("systemd-analyze", "verify", "--man=no", "/etc/systemd/system/"+unit); r.Status != 0 || r.Stdout+r.Stderr != "" {
		s.t.Errorf("systemd-analyze verify %s: %s", unit, r)
	}
}

// next runs the commands that a command said come next.
func (s *supervised) next(output string) {
	s.t.Helper()
	_, commands, ok := strings.Cut(output, "\nnext:\n")
	if !ok {
		s.t.Fatalf("nothing comes next in %q", output)
	}
	for line := range strings.Lines(commands) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "zddsupervisor doctor") {
			s.must(strings.Fields(line)...)
		}
	}
}

// TestUnitInstall makes a unit and a configuration of a command line, and serves with them.
func TestUnitInstall(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := asInstalled(t, m)
		s.logs = append(s.logs, unitName)
		install := func(args ...string) []string {
			return append([]string{supervisorPath, "unit", "--install", "--name", "svc", "--directory", "/", "--ready-timeout", "20s"}, args...)
		}
		first := install("--listen", "http=tcp://"+address, "--", servicePath, "-version=1")
		dry := s.must(append(first[:3:3], append([]string{"--dry-run"}, first[3:]...)...)...)
		if r := s.run("ls", configPath, "/etc/systemd/system/"+unitName); r.Stdout != "" {
			t.Errorf("a dry run wrote %s", r)
		}
		said := s.must(first...)
		for _, path := range []string{configPath, "/etc/systemd/system/" + unitName} {
			if !strings.Contains(said, "wrote "+path+"\n") {
				t.Errorf("it does not say that it wrote %s: %s", path, said)
			}
			if text := s.must("cat", path); !strings.Contains(dry, "# "+path+"\n"+text) {
				t.Errorf("%s has\n%s\nand the dry run said\n%s", path, text, dry)
			}
		}
		s.verify(unitName)
		s.next(said)
		if got := s.answers(); got != "1" {
			t.Fatalf("version %q answers", got)
		}
		s.expect("installed", map[string]string{"ActiveState": "active", "UnitFileState": "enabled", "NeedDaemonReload": "no"})

		if again := s.run(first...); again.Status != 0 || !strings.Contains(again.Stdout, "everything is there already") {
			t.Errorf("the same again: %s", again)
		}
		other := install("--listen", "http=tcp://"+address, "--", servicePath, "-version=2")
		if r := s.run(other...); r.Status != 1 || !strings.Contains(r.Stderr, "-version=1") || !strings.Contains(r.Stderr, "--force") {
			t.Errorf("over another configuration: %s", r)
		}
		s.must(append(other[:3:3], append([]string{"--force"}, other[3:]...)...)...)
		if r := s.reload(); r.Status != 0 {
			t.Errorf("reload: %s", r)
		}
		if got := s.answers(); got != "2" {
			t.Errorf("after the reload, version %q answers", got)
		}
		s.must("systemctl", "disable", "--now", unitName)

		// The same on sockets of systemd's, which outlive a restart.
		s.must("rm", configPath, "/etc/systemd/system/"+unitName)
		said = s.must(install("--socket-unit", "--listen", "http=tcp://"+address, "--listen", "unix:///run/svc.sock?permissions=600&name=ctl", "--", servicePath, "-version=1")...)
		for _, unit := range []string{"svc-http.socket", "svc-ctl.socket", unitName} {
			s.verify(unit)
		}
		s.logs = append(s.logs, "svc-http.socket", "svc-ctl.socket")
		s.next(said)
		if got := s.must("stat", "--format=%a %F", "/run/svc.sock"); got != "600 socket" {
			t.Errorf("the other socket is %s", got)
		}
		l := s.load(load.Config{Rate: 200})
		l.versions(1)
		for version := 2; version <= 3; version++ {
			s.must("sed", "-i", fmt.Sprintf("s/-version=./-version=%d/", version), configPath)
			l.handoff()
		}
		if sockets := s.status().Sockets; len(sockets) != 2 || sockets[0].Mode != "steered" || sockets[1].Mode != "shared" {
			t.Errorf("the sockets are %+v", sockets)
		}
		s.must("sed", "-i", "s/-version=./-version=4/", configPath)
		s.must("systemctl", "restart", unitName)
		l.versions(4)
		result := l.stop()
		if j := result.Judge(l.handoffs); j.Verdict != load.Clean {
			t.Errorf("%s\n%s", j, result)
		}
		s.must("systemctl", "stop", unitName, "svc-http.socket", "svc-ctl.socket")
	})
}

// TestUnitTemplate serves by an instance of the template.
func TestUnitTemplate(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := asInstalled(t, m)
		const instance = "zddsupervisor@my-svc_2.service"
		s.logs = append(s.logs, instance)
		s.must(supervisorPath, "unit", "--template", "--install")
		s.must("systemctl", "daemon-reload")
		if r := s.run("systemctl", "start", instance); r.Status == 0 || s.show(instance, "ActiveState") != "inactive" {
			t.Errorf("without a configuration: %s; it is %s", r, s.show(instance, "ActiveState"))
		}
		// The name in the file is another one, and none that matters.
		s.write("/etc/zddsupervisor/my-svc_2.toml", config("-version=1"))
		s.verify(instance)
		s.must("systemctl", "start", instance)
		if got := s.answers(); got != "1" {
			t.Errorf("version %q answers", got)
		}
		s.write("/etc/zddsupervisor/my-svc_2.toml", config("-version=2"))
		if r := s.run("systemctl", "reload", instance); r.Status != 0 {
			t.Errorf("reload: %s", r)
		}
		if got := s.must(supervisorPath, "status", "--name", "my-svc_2"); !strings.HasPrefix(got, "my-svc_2 is live") {
			t.Errorf("status: %s", got)
		}
		if status, bad := s.doctor("--name", "my-svc_2"); status != 0 || len(bad) > 0 {
			t.Errorf("doctor: exit status %d, %+v", status, bad)
		}
		s.must("systemctl", "stop", instance)
		if left, err := s.UnitProcesses(instance); err != nil || len(left) > 0 {
			t.Errorf("after the stop, there are %+v, %v", left, err)
		}
	})
}

const systemdPage = "../docs/systemd.md"

// TestSecurityFigures holds the documentation to what systemd itself thinks of the units.
func TestSecurityFigures(t *testing.T) {
	page, err := os.ReadFile(systemdPage)
	if err != nil {
		t.Fatal(err)
	}
	onEach(t, func(t *testing.T, m *testMachine) {
		s := asInstalled(t, m)
		s.write(configPath, "user = \"nobody\"\n"+config())
		figure := func(unit string) string {
			t.Helper()
			s.write("/run/analyzed/"+unitName, unit)
			out := s.run("systemd-analyze", "security", "--offline=true", "--no-pager", "/run/analyzed/"+unitName).Stdout
			_, figure, ok := strings.Cut(out, "Overall exposure level for "+unitName+": ")
			if !ok {
				t.Fatalf("no figure in\n%s", out)
			}
			figure, _, _ = strings.Cut(figure, " ")
			return figure
		}
		plain := s.must(supervisorPath, "unit", "--config", configPath)
		without := strings.NewReplacer("CapabilityBoundingSet", "#", "LockPersonality", "#").Replace(plain)
		hardened := s.must(supervisorPath, "unit", "--harden", "--config", configPath)
		line := fmt.Sprintf("| %s | %s | %s | %s |", strings.Fields(s.must("systemctl", "--version"))[1], figure(without), figure(plain), figure(hardened))
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("%s does not have the line\n%s", systemdPage, line)
		}
	})
}
