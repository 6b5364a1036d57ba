package integration_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// TestLifecycle goes through everything that an administrator does with a unit.
func TestLifecycle(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config("-version=1"))
		s.must("systemctl", "start", unitName)
		s.expect("started", map[string]string{"ActiveState": "active", "SubState": "running", "Type": "notify-reload", "NRestarts": "0"})
		if got := s.answers(); got != "1" {
			t.Errorf("version %q answers", got)
		}
		if s.show(unitName, "StatusText") == "" {
			t.Error("the unit has no status text")
		}
		mainPID := s.show(unitName, "MainPID")

		s.write(configPath, config("-version=2"))
		if r := s.reload(); r.Status != 0 {
			t.Errorf("reload: %s", r)
		}
		s.expect("reloaded", map[string]string{
			"ActiveState": "active", "ReloadResult": "success", "Result": "success", "NRestarts": "0", "MainPID": mainPID,
		})
		if got := s.answers(); got != "2" {
			t.Errorf("after the reload, version %q answers", got)
		}

		s.must("systemctl", "restart", unitName)
		s.expect("restarted", map[string]string{"ActiveState": "active", "NRestarts": "0"})
		if got := s.show(unitName, "MainPID"); got == mainPID {
			t.Error("after a restart, the supervisor is the same")
		}
		if got := s.answers(); got != "2" {
			t.Errorf("after the restart, version %q answers", got)
		}

		s.must("systemctl", "stop", unitName)
		s.expect("stopped", map[string]string{"ActiveState": "inactive", "Result": "success", "NRestarts": "0"})
		if left, err := s.UnitProcesses(unitName); err != nil || len(left) > 0 {
			t.Errorf("after the stop, there are %+v, %v", left, err)
		}
		if got := s.answers(); !strings.Contains(got, "exit status 7") { // connection refused
			t.Errorf("after the stop, the port answers: %s", got)
		}
	})
}

// TestFailedReload deploys versions that cannot serve. Each fails the reload and changes nothing but the unit's status text and the
// journal, which say why. The next good one works.
func TestFailedReload(t *testing.T) {
	bad := func(replace ...string) string { return strings.NewReplacer(replace...).Replace(config("-version=bad")) }
	versions := []struct{ name, config, reason string }{
		{"exits at once", config("-exit-after=0s", "-exit-status=3"), "exit status 3"},
		{"exits while it gets ready", config("-exit-after=1s", "-exit-status=4", "-never-ready"), "exit status 4"},
		{"crashes", config("-crash-after=0s"), "SIGSEGV"},
		{"is missing", bad(servicePath, "/usr/local/bin/missing"), "/usr/local/bin/missing"},
		{"cannot be executed", bad(servicePath, "/etc/hostname-file"), "/etc/hostname-file"},
		{"has no interpreter", bad(servicePath, "/usr/local/bin/script"), "/usr/local/bin/script"},
		{"never gets ready", strings.Replace(config("-never-ready"), `timeout = "20s"`, `timeout = "1s"`, 1), "ready"},
		{"daemonizes", config("-daemonize"), "exit status 0"},
		{"is not configured right", bad("[drain]", "[brain]"), configPath},
	}
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config("-version=good-0"))
		s.write("/etc/hostname-file", "no program\n")
		s.write("/usr/local/bin/script", "#!/usr/bin/missing-interpreter\n")
		s.must("chmod", "+x", "/usr/local/bin/script")
		s.must("systemctl", "start", unitName)
		l := s.load(load.Config{Rate: 200})
		l.versions(1)
		mainPID := s.show(unitName, "MainPID")
		for i, v := range versions {
			live := s.live()
			s.write(configPath, v.config)
			r := s.reload()
			if r.Status == 0 {
				t.Errorf("%s: the reload succeeded: %s", v.name, r)
			}
			s.expect(v.name, map[string]string{
				"ActiveState": "active", "SubState": "running", "ReloadResult": "exit-code", "Result": "success", "NRestarts": "0", "MainPID": mainPID,
			})
			if got := s.live(); got != live {
				t.Errorf("%s: pid %d serves, before it was %d", v.name, got, live)
			}
			if last := s.status().Last; last == nil || !strings.Contains(last.Reason, v.reason) {
				t.Errorf("%s: the reason lacks %q: %+v", v.name, v.reason, last)
			}
			if text := s.show(unitName, "StatusText"); !strings.Contains(text, v.reason) {
				t.Errorf("%s: the unit's status text lacks %q: %s", v.name, v.reason, text)
			}
			// The client that systemd runs writes it to the journal, too.
			if journal, err := s.Journal(t.Context(), unitName); err != nil || !strings.Contains(journal[max(0, len(journal)-4000):], v.reason) {
				t.Errorf("%s: the end of the journal lacks %q: %v", v.name, v.reason, err)
			}

			s.write(configPath, config(fmt.Sprintf("-version=good-%d", i+1)))
			l.handoff()
			s.expect("good after "+v.name, map[string]string{"ActiveState": "active", "ReloadResult": "success", "MainPID": mainPID})
		}
		s.eventually("only one generation is left", func() bool { return len(s.status().Generations) == 1 })
		processes, err := s.UnitProcesses(unitName)
		if err != nil || len(processes) != 2 {
			t.Errorf("want the supervisor and one service, got %+v, %v", processes, err)
		}
		result := l.stop()
		if j := result.Judge(l.handoffs); j.Verdict != load.Clean {
			t.Errorf("%s\n%s", j, result)
		}
	})
}

// TestClosedSockets deploys a version that says it is ready and has closed its sockets: nobody would ever answer, and nothing but a look at its
// descriptors tells.
func TestClosedSockets(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config("-version=1"))
		s.must("systemctl", "start", unitName)
		live := s.live()
		s.write(configPath, config("-version=2", "-close-sockets"))
		if r := s.reload(); r.Status == 0 {
			t.Errorf("the reload succeeded: %s", r)
		}
		s.expect("after the reload", map[string]string{"ActiveState": "active", "ReloadResult": "exit-code", "NRestarts": "0"})
		if got := s.live(); got != live {
			t.Errorf("pid %d is live, before it was %d", got, live)
		}
		if got := s.answers(); got != "1" {
			t.Errorf("version %q answers", got)
		}
	})
}

// TestOneHandoffPerReload counts handoffs. Before version 259 systemd sends the reload signal and runs ExecReload= at once, later ones run
// ExecReload= first and need no signal. A unit that an administrator has written leaves the signal what it is.
func TestOneHandoffPerReload(t *testing.T) {
	units := map[string]func(s *supervised) string{
		"as printed": func(s *supervised) string { return s.must(supervisorPath, "unit", "--config", configPath) },
		"as printed portable": func(s *supervised) string {
			return s.must(supervisorPath, "unit", "--portable", "--config", configPath)
		},
		"without ReloadSignal": func(*supervised) string {
			return `[Service]
Type=notify-reload
ExecStart=/usr/bin/zddsupervisor run --config /etc/zddsupervisor/svc.toml
ExecReload=/usr/bin/zddsupervisor reload --name svc
RuntimeDirectory=zddsupervisor/svc
KillMode=mixed
`
		},
		"without ExecReload": func(*supervised) string {
			return `[Service]
Type=notify-reload
ExecStart=/usr/bin/zddsupervisor run --config /etc/zddsupervisor/svc.toml
RuntimeDirectory=zddsupervisor/svc
KillMode=mixed
`
		},
	}
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config())
		for name, text := range units {
			s.unit(unitName, text(s))
			s.must("systemctl", "start", unitName)
			before := s.status().Handoffs
			const reloads = 4
			for range reloads {
				if r := s.reload(); r.Status != 0 {
					t.Errorf("%s: reload: %s", name, r)
				}
			}
			// Another one that the signal asked for would come within this time at the latest: it is asked for in the order of things.
			s.eventually("no handoff runs", func() bool { st := s.status(); return st.Phase == upgrade.Idle.String() && !st.Waiting })
			if got := s.status().Handoffs - before; got != reloads {
				t.Errorf("%s: %d handoffs for %d reloads", name, got, reloads)
			}
			s.must("systemctl", "stop", unitName)
		}
	})
}

// TestHangup signals the supervisor alone, and then everything in the unit's control group, where the signal kills the service.
func TestHangup(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config("-version=1"))
		s.must("systemctl", "start", unitName)
		mainPID := s.show(unitName, "MainPID")

		s.write(configPath, config("-version=2"))
		before := s.status().Handoffs
		s.must("systemctl", "kill", "--signal=HUP", "--kill-whom=main", unitName)
		s.eventually("version 2 answers", func() bool { return s.answers() == "2" })
		if got := s.status().Handoffs - before; got != 1 {
			t.Errorf("one SIGHUP made %d handoffs", got)
		}

		s.write(configPath, config("-version=3"))
		s.must("systemctl", "kill", "--signal=HUP", unitName)
		s.eventually("version 3 answers", func() bool { return s.answers() == "3" })
		s.eventually("no handoff runs", func() bool {
			st := s.status()
			return st.Phase == upgrade.Idle.String() && !st.Waiting && len(st.Generations) == 1
		})
		s.expect("after the whole control group was signalled", map[string]string{"ActiveState": "active", "NRestarts": "0", "MainPID": mainPID})
		if r := s.reload(); r.Status != 0 {
			t.Errorf("the next reload: %s", r)
		}
	})
}

// TestSlowStart has a service that takes longer to get ready than systemd waits by itself.
func TestSlowStart(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config("-version=1", "-ready-after=6s"))
		s.unit(unitName, s.must(supervisorPath, "unit", "--config", configPath)+"\n[Service]\nTimeoutStartSec=3s\n")
		s.must("systemctl", "start", unitName)
		s.write(configPath, config("-version=2", "-ready-after=6s"))
		if r := s.reload(); r.Status != 0 {
			t.Errorf("reload: %s", r)
		}
		s.expect("after a slow reload", map[string]string{"ActiveState": "active", "ReloadResult": "success", "NRestarts": "0"})
		if got := s.answers(); got != "2" {
			t.Errorf("version %q answers", got)
		}
	})
}

// TestWatchdog shows that systemd hears from the supervisor while a handoff takes long, and that it is replaced if it hangs, with
// the service untouched.
func TestWatchdog(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config("-version=1"))
		s.unit(unitName, s.must(supervisorPath, "unit", "--config", configPath)+"\n[Service]\nWatchdogSec=2s\nWatchdogSignal=SIGKILL\n")
		s.must("systemctl", "start", unitName)
		s.write(configPath, config("-version=2", "-ready-after=5s"))
		if r := s.reload(); r.Status != 0 {
			t.Errorf("reload: %s", r)
		}
		s.expect("after a reload that took longer than the watchdog waits", map[string]string{"ActiveState": "active", "NRestarts": "0"})

		s.write(configPath, config("-version=3"))
		s.must("systemctl", "kill", "--signal=STOP", "--kill-whom=main", unitName)
		s.eventually("it was started again", func() bool {
			return s.show(unitName, "NRestarts") == "1" && s.show(unitName, "ActiveState") == "active"
		})
		if got := s.answers(); got != "2" {
			t.Errorf("version %q answers", got)
		}
	})
}

// TestSupervisorIsKilled shows that systemd starts the supervisor again, and that nothing of its former service is in the way.
func TestSupervisorIsKilled(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config("-version=1", "-tree=2", "-tree-setsid"))
		s.must("systemctl", "start", unitName)
		before := s.show(unitName, "MainPID")
		s.must("systemctl", "kill", "--signal=KILL", "--kill-whom=main", unitName)
		s.eventually("it was started again", func() bool {
			return s.show(unitName, "NRestarts") == "1" && s.show(unitName, "ActiveState") == "active"
		})
		if got := s.show(unitName, "MainPID"); got == before {
			t.Errorf("the main process is still %s", got)
		}
		if got := s.answers(); got != "1" {
			t.Errorf("version %q answers", got)
		}
		if r := s.reload(); r.Status != 0 {
			t.Errorf("reload: %s", r)
		}
		s.must("systemctl", "stop", unitName)
		if left, err := s.UnitProcesses(unitName); err != nil || len(left) > 0 {
			t.Errorf("after the stop, there are %+v, %v", left, err)
		}
	})
}

// TestSystemdSocket hands off a service on a socket that systemd has bound, which outlives even the supervisor's restart.
func TestSystemdSocket(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		onSystemds := func(version string) string {
			return strings.Replace(config("-version="+version), "tcp://"+address, "systemd:web", 1)
		}
		s := supervise(t, m, onSystemds("1"))
		s.unit("svc.socket", fmt.Sprintf("[Socket]\nListenStream=%s\nFileDescriptorName=web\n", address))
		s.must("systemctl", "start", "svc.socket")
		l := s.load(load.Config{Rate: 200}) // starts the service
		l.versions(1)
		for _, version := range []string{"2", "3"} {
			s.write(configPath, onSystemds(version))
			l.handoff()
		}
		s.write(configPath, onSystemds("4"))
		s.must("systemctl", "restart", unitName)
		l.versions(4)
		result := l.stop()
		if j := result.Judge(l.handoffs); j.Verdict != load.Clean {
			t.Errorf("%s\n%s", j, result)
		}
	})
}

// TestStopDrains stops the unit while a request is under way that takes a while.
func TestStopDrains(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config("-version=1", "-tree=3", "-tree-setsid"))
		s.must("systemctl", "start", unitName)
		curl := s.Command(t.Context(), "curl", "--silent", "--show-error", "http://"+address+"/?sleep=2s")
		answer, err := curl.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := curl.Start(); err != nil {
			t.Fatal(err)
		}
		s.eventually("the service has the request", func() bool {
			return s.must("ss", "--tcp", "--no-header", "--numeric", "state", "established", "sport = :8080") != ""
		})
		s.must("systemctl", "stop", unitName)
		b := make([]byte, 64)
		n, _ := answer.Read(b)
		if err := curl.Wait(); err != nil || !strings.HasPrefix(string(b[:n]), "1 ") {
			t.Errorf("the request under way got %q, %v", b[:n], err)
		}
		s.expect("stopped", map[string]string{"ActiveState": "inactive", "Result": "success"})
		if left, err := s.UnitProcesses(unitName); err != nil || len(left) > 0 {
			t.Errorf("after the stop, there are %+v, %v", left, err)
		}
	})
}
