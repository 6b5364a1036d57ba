package integration_test

import (
	"context"
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// TestDebianPackage installs the package, upgrades it under load, removes and purges it.
func TestDebianPackage(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed")
	}
	onOne(t, func(t *testing.T, m *testMachine) {
		const instance = "zddsupervisor@svc.service"
		s := &supervised{m}
		s.logs = append(s.logs, instance, "own.service")
		service, err := programs.Service(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		s.install(service, servicePath)
		for version, path := range map[string]string{"1.0-1": "/root/1.deb", "1.0-2": "/root/2.deb"} {
			deb, err := programs.Package(context.Background(), version)
			if err != nil {
				t.Fatal(err)
			}
			s.install(deb, path)
		}
		s.must("rm", "/etc/dpkg/dpkg.cfg.d/no-docs") // the test machines have no manuals
		files := func() string {
			return s.must("sh", "-c", "find / -xdev -iname '*zddsupervisor*' ! -path '/proc/*' ! -path '/var/log/*'; ls -d /run/zddsupervisor /etc/systemd/system/*.wants/*zdd* 2>/dev/null || true")
		}
		before := files()
		type about struct {
			PID     int
			Program string
		}
		supervisor := func() (a about) {
			t.Helper()
			if err := json.Unmarshal([]byte(s.must(supervisorPath, "status", "--name", "svc", "--json")), &a); err != nil {
				t.Fatal(err)
			}
			return a
		}

		s.must("dpkg", "--install", "/root/1.deb")
		for _, path := range []string{
			"/usr/share/man/man1/zddsupervisor.1.gz", "/usr/share/man/man1/zddsupervisor-run.1.gz", "/usr/share/man/man5/zddsupervisor.toml.5.gz",
			"/usr/share/bash-completion/completions/zddsupervisor", "/usr/share/zsh/vendor-completions/_zddsupervisor",
			"/usr/share/fish/vendor_completions.d/zddsupervisor.fish", "/usr/share/doc/zddsupervisor/changelog.gz", "/etc/zddsupervisor",
		} {
			s.must("test", "-e", path)
		}
		s.must("dpkg", "--verify", "zddsupervisor")
		if got := s.must(supervisorPath, "--version"); got != "zddsupervisor version 1.0-1" {
			t.Errorf("the program says %q", got)
		}
		if r := s.run("systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/zddsupervisor@.service"); r.Status != 0 || r.Stdout+r.Stderr != "" {
			t.Errorf("systemd-analyze verify: %s", r)
		}
		if got := s.must("systemctl", "list-unit-files", "--no-legend", "--plain", "zddsupervisor*"); strings.Fields(got)[1] != "disabled" {
			t.Errorf("the unit is %q", got)
		}
		s.write(configPath, config("-version=0", "-serve=http"))
		s.must("systemctl", "enable", "--now", instance)
		if got := s.must(supervisorPath, "__complete", "status", "--name", ""); !strings.HasPrefix(got, "svc\t") {
			t.Errorf("names are completed to %q", got)
		}
		l := s.load(load.Config{Workers: 4, Rate: backgroundRate})
		l.versions(1)
		pid, was := s.live(), supervisor()

		// An upgrade replaces the supervisor, and nothing else.
		began := time.Now()
		s.must("dpkg", "--install", "/root/2.deb")
		now := supervisor()
		if now.PID == was.PID || was.Program != "1.0-1" || now.Program != "1.0-2" || strconv.Itoa(now.PID) != s.show(instance, "MainPID") {
			t.Errorf("the supervisor was %+v and is %+v, and systemd knows %s", was, now, s.show(instance, "MainPID"))
		}
		if got := s.live(); got != pid {
			t.Errorf("the service was process %d, and is %d", pid, got)
		}
		if s.show(instance, "NRestarts") != "0" || s.show(instance, "ActiveState") != "active" {
			t.Error("the unit was restarted")
		}
		l.handoffs = append(l.handoffs, load.Interval{From: began, To: time.Now()})
		// It can do what the one before could.
		s.write(configPath, config("-version=1", "-serve=http"))
		began = time.Now()
		s.must("systemctl", "reload", instance)
		l.handoffs = append(l.handoffs, load.Interval{From: began, To: time.Now()})
		l.versions(2)

		// Where one cannot be replaced just now, the package is installed all the same, and says so.
		s.write(configPath, "handoff.soak = \"5m\"\n"+config("-version=2", "-serve=http"))
		s.must("systemctl", "reload", "--no-block", instance)
		s.eventually("it soaks", func() bool { return s.status().Phase == upgrade.Soaking.String() })
		was = supervisor()
		if r := s.run("dpkg", "--install", "/root/2.deb"); r.Status != 0 || !strings.Contains(r.Stderr, "svc goes on as the old version") {
			t.Errorf("in a handoff: %s", r)
		}
		if now := supervisor(); now != was {
			t.Errorf("in a handoff, the supervisor was %+v and is %+v", was, now)
		}
		s.must(supervisorPath, "promote", "--name", "svc")
		result := l.stop()
		t.Logf("%s", result)
		if n := result.Failed(); n > 0 {
			t.Errorf("%d requests failed", n)
		}

		// A removal stops what runs, whatever its unit, and leaves configurations; a purge leaves nothing but units of one's own.
		s.write("/etc/zddsupervisor/own.toml", strings.Replace(strings.Replace(config(), `"svc"`, `"own"`, 1), address, "127.0.0.1:8081", 1))
		s.must(supervisorPath, "unit", "--install", "--config", "/etc/zddsupervisor/own.toml")
		s.must("systemctl", "daemon-reload")
		s.must("systemctl", "start", "own.service")
		s.must("dpkg", "--remove", "zddsupervisor")
		for _, unit := range []string{instance, "own.service"} {
			if got := s.show(unit, "ActiveState"); got != "inactive" && got != "failed" {
				t.Errorf("after the removal %s is %s", unit, got)
			}
		}
		if r := s.run("pgrep", "testservice"); r.Stdout != "" {
			t.Errorf("after the removal there are processes %s", r.Stdout)
		}
		s.must("test", "-e", configPath)
		s.must("dpkg", "--purge", "zddsupervisor")
		if after := files(); after != before {
			t.Errorf("after the purge there are\n%s\nand before the installation\n%s", after, before)
		}
		s.must("test", "-e", "/etc/systemd/system/own.service")
	})
}
