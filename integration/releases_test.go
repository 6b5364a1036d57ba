package integration_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// release puts a release of the testservice into the machine.
func (s *supervised) release(name string, flags ...string) {
	s.t.Helper()
	dir := "/srv/svc/releases/" + name + "/bin"
	s.must("mkdir", "-p", dir)
	s.write(dir+"/svc", fmt.Sprintf("#!/bin/sh\nexec %s -version=%s -serve=http %s\n", servicePath, name, strings.Join(flags, " ")))
	s.must("chmod", "755", dir+"/svc")
}

// Releases are deployed and rolled back in a unit, under load: what the link points to, what answers and what systemd says is the same
// thing, also where a release is bad, the supervisor is killed in the middle, and the unit is stopped and started.
func TestDeployAndRollback(t *testing.T) {
	onOne(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config())
		for _, name := range []string{"v1", "v2", "v3"} {
			s.release(name)
		}
		s.release("bad", "-exit-after=0s", "-exit-status=3")
		s.release("late", "-never-ready")
		s.must("ln", "-s", "releases/v1", "/srv/svc/current")
		s.write(configPath, strings.Replace(config(), `command = ["`+servicePath+`"]`, `command = ["/srv/svc/current/bin/svc"]
directory = "/srv/svc/current"`, 1)+"\n[releases]\ndirectory = \"/srv/svc/releases\"\ncurrent = \"/srv/svc/current\"\n")
		s.must("systemctl", "start", unitName)
		is := func(release string) {
			t.Helper()
			if got := s.answers(); got != release {
				t.Errorf("%s answers, and not %s", got, release)
			}
			if got := strings.TrimSpace(s.must("readlink", "/srv/svc/current")); got != "releases/"+release {
				t.Errorf("the link points to %s, and not to %s", got, release)
			}
			s.expect(release, map[string]string{"ActiveState": "active", "SubState": "running"})
			if text := s.show(unitName, "StatusText"); !strings.Contains(text, "generation") {
				t.Errorf("the status text is %q", text)
			}
		}
		is("v1")
		l := s.load(load.Config{Workers: 4, Rate: backgroundRate})
		l.versions(1)
		s.must(supervisorPath, "deploy", "v2")
		is("v2")
		if r := s.run(supervisorPath, "deploy", "bad"); r.Status != 1 || !strings.Contains(r.Stderr, "exit status 3") {
			t.Errorf("a bad release: %s", r)
		}
		is("v2")
		s.must(supervisorPath, "deploy", "v3")
		is("v3")
		s.must(supervisorPath, "rollback")
		is("v2")

		deployed := make(chan struct{})
		go func() {
			defer close(deployed)
			s.run(supervisorPath, "deploy", "late")
		}()
		s.eventually("the deploy is under way", func() bool { return s.status().Phase == "ready" })
		s.killSupervisor()
		<-deployed
		s.eventually("it is over", func() bool { return len(s.status().Generations) == 1 })
		is("v2")
		s.must(supervisorPath, "deploy", "v3")
		is("v3")
		result := l.stop()
		t.Logf("%s", result)
		if n := result.Failed(); n > 0 {
			t.Errorf("%d requests failed, at %v as the journal counts", n, sinceBoot(t, result))
		}

		generation := s.status().Generations[0].Number
		s.must("systemctl", "stop", unitName)
		if out := s.must(supervisorPath, "history"); strings.Count(out, "rollback") != 1 || !strings.Contains(out, "late") {
			t.Errorf("without a supervisor, the history is\n%s", out)
		}
		s.must("systemctl", "start", unitName)
		is("v3")
		if n := s.status().Generations[0].Number; n != generation+1 {
			t.Errorf("after generation %d came %d", generation, n)
		}
		s.must(supervisorPath, "rollback")
		is("v2")
	})
}
