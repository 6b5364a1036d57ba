package integration_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// hardened is a configuration that asks for everything that takes a privilege: another user, whose files nobody else may read, a low
// port, and connections that are carried over. sockets are more of them, or any other keys of the file's beginning.
func hardened(version int, sockets string) string {
	return fmt.Sprintf(`name = "svc"
command = [%q, "-version=%d", "-serve=http"]
user = "nobody"
directory = "/srv/svc"
environment-file = ["/srv/svc/env"]
%s

[[socket]]
name = "http"
listen = "tcp://127.0.0.1:80"
protocol = "http/1"

[ready]
timeout = "20s"

[drain]
timeout = "5s"

[handoff]
keepalive = "carry"
`, servicePath, version, sockets)
}

const raisedLimit = "limits = { nofile = 600000 }\n"

const ownedSocket = `[[socket]]
name = "ctl"
listen = "unix:///srv/svc/ctl.sock"
owner = "nobody"
permissions = "0660"
`

// TestHardenedUnit hands off in the unit of --harden, and then takes each of its capabilities away: nothing can be spared.
func TestHardenedUnit(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config())
		s.write("/srv/svc/env", "A=B\n")
		s.must("chown", "-R", "nobody", "/srv/svc")
		s.must("chmod", "700", "/srv/svc")
		s.must("chmod", "600", "/srv/svc/env")
		s.write(configPath, hardened(0, ownedSocket))
		unit := s.must(supervisorPath, "unit", "--harden", "--config", configPath) + "\n"
		s.unit(unitName, unit)
		s.verify(unitName)
		s.must("systemctl", "start", unitName)
		if got := s.must("grep", "^CapEff", fmt.Sprintf("/proc/%d/status", s.live())); !strings.HasSuffix(got, "0000000000000000") {
			t.Errorf("the service has capabilities: %s", got)
		}
		if status, bad := s.doctor("--name", "svc"); status != 0 || len(bad) > 0 {
			t.Errorf("doctor: exit status %d, %+v", status, bad)
		}
		if got := s.must("cat", fmt.Sprintf("/proc/%d/cgroup", s.live())); !strings.HasSuffix(got, unitName+"/gen-1") {
			t.Errorf("the generation is in %s", got)
		}

		l := s.load(load.Config{Address: "127.0.0.1:80", Workers: 2, Rate: backgroundRate})
		l.versions(1)
		// A service that is stalled may cost carried connections a request (docs/carry.md): these are only here to be carried.
		kept := s.load(load.Config{Address: "127.0.0.1:80", Workers: 2, Rate: backgroundRate, KeepAlive: true})
		kept.versions(1)
		carried := 0
		for version := 1; version <= 4; version++ {
			s.write(configPath, hardened(version, ownedSocket))
			l.handoff()
			s.eventually("the old generation is gone", func() bool { return len(s.status().Generations) == 1 })
			if last := s.status().Last; last != nil && last.Carried != nil {
				carried += last.Carried.Carried
			}
		}
		pid := s.live()
		s.killSupervisor()
		if got := s.live(); got != pid {
			t.Errorf("after the supervisor was killed the service is process %d, and was %d", got, pid)
		}
		result := l.stop()
		t.Logf("new connections: %s\n%d were carried over: %s", result, carried, kept.stop())
		if n := result.Failed(); n > 0 || carried == 0 {
			t.Errorf("%d requests failed, %d connections were carried over", n, carried)
		}
		// What a supervisor leaves that is killed and not started again, sweep ends.
		s.unit(unitName, unit+"[Service]\nRestart=no\n")
		s.must("systemctl", "kill", "--signal=KILL", "--kill-whom=main", unitName)
		s.eventually("the unit has failed", func() bool { return s.show(unitName, "ActiveState") == "failed" })
		if left, err := s.UnitProcesses(unitName); err != nil || len(left) > 0 {
			t.Errorf("after the stop, there are %+v, %v", left, err)
		}
		if r := s.run("test", "-e", "/srv/svc/ctl.sock"); r.Status == 0 {
			t.Error("the socket's file was left")
		}

		// Without any one of them.
		for capability, missed := range map[string]struct{ sockets, text string }{
			"CAP_SETUID":           {ownedSocket, "CAP_SETUID and CAP_SETGID"},
			"CAP_SETGID":           {ownedSocket, "CAP_SETUID and CAP_SETGID"},
			"CAP_NET_BIND_SERVICE": {ownedSocket, "CAP_NET_BIND_SERVICE"},
			"CAP_CHOWN":            {ownedSocket, "cannot be given to owner"},
			"CAP_FOWNER":           {ownedSocket, "operation not permitted"},
			"CAP_DAC_OVERRIDE":     {ownedSocket, "may not create files in /srv/svc"},
			"CAP_DAC_READ_SEARCH":  {"", "/srv/svc/env"},
			"CAP_SYS_RESOURCE":     {raisedLimit, "above the supervisor's own hard limit"},
			"CAP_SYS_PTRACE":       {ownedSocket, "the right to trace"},
			"CAP_KILL":             {ownedSocket, "operation not permitted"},
		} {
			s.write(configPath, hardened(0, missed.sockets))
			unit := s.must(supervisorPath, "unit", "--harden", "--config", configPath)
			if !slices.Contains(strings.Fields(capabilitiesOf(unit)), capability) {
				t.Errorf("the unit does not have %s", capability)
			}
			s.unit(unitName, unit+"\n[Service]\nCapabilityBoundingSet=~"+capability+"\n")
			began := s.must("date", "+%s.%N")
			journal := func() string {
				s.must("journalctl", "--sync")
				return s.must("journalctl", "--no-pager", "--output=cat", "--unit="+unitName, "--since=@"+began)
			}
			s.must("systemctl", "start", "--no-block", unitName)
			if capability == "CAP_SYS_PTRACE" || capability == "CAP_KILL" {
				s.eventually("started without "+capability, func() bool { return s.show(unitName, "ActiveState") == "active" })
				l := s.load(load.Config{Address: "127.0.0.1:80", Workers: 4, Rate: backgroundRate, KeepAlive: true})
				l.versions(1)
				s.write(configPath, hardened(1, missed.sockets))
				s.reload()
				l.stop()
			}
			s.eventually("the journal misses "+capability+": "+missed.text, func() bool { return strings.Contains(journal(), missed.text) })
			s.must("systemctl", "kill", "--signal=KILL", unitName)
			s.run("systemctl", "stop", unitName)
			s.must("rm", "-f", "/srv/svc/ctl.sock")
		}
	})
}

// capabilitiesOf returns what a unit's text says.
func capabilitiesOf(unit string) string {
	_, rest, _ := strings.Cut(unit, "\nCapabilityBoundingSet=")
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

// TestLinesThatBreak shows what the lines do that the documentation warns of.
func TestLinesThatBreak(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config("-version=1", "-serve=http", "-log=/tmp/log"))
		unit := s.must(supervisorPath, "unit", "--config", configPath) + "\n[Service]\n"

		s.unit(unitName, unit+"PrivateTmp=yes\n")
		s.must("systemctl", "start", unitName)
		file := fmt.Sprintf("/proc/%d/root/tmp/log", s.live())
		s.must("test", "-e", file)
		s.killSupervisor()
		if r := s.run("ls", file); r.Status == 0 {
			t.Error("with PrivateTmp=, the service has its file still")
		}
		s.must("systemctl", "stop", unitName)

		s.unit(unitName, unit+"ProtectControlGroups=yes\n")
		s.must("systemctl", "start", unitName)
		if got := s.must("cat", fmt.Sprintf("/proc/%d/cgroup", s.live())); strings.Contains(got, "gen-") {
			t.Errorf("with ProtectControlGroups=, the generation is in %s", got)
		}
		s.must("systemctl", "stop", unitName)

		s.write(configPath, "user = \"nobody\"\n"+config("-version=1"))
		s.unit(unitName, unit+"PrivateUsers=yes\n")
		s.must("systemctl", "start", "--no-block", unitName)
		s.eventually("no generation is started with PrivateUsers=", func() bool {
			journal, err := s.Journal(t.Context(), unitName)
			return err == nil && strings.Contains(journal, "become the user 65534")
		})
	})
}
