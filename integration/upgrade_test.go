package integration_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// replaceSupervisor puts a copy of the supervisor's own program, or a script, in its place, as package managers do.
func (s *supervised) replaceSupervisor(script string) {
	s.t.Helper()
	const next = supervisorPath + ".next"
	if script == "" {
		s.must("cp", supervisorPath+".good", next)
	} else {
		s.write(next, script)
		s.must("chmod", "755", next)
	}
	s.must("mv", next, supervisorPath)
}

// TestSelfUpgrade replaces the supervisor under load, some times by a program that is broken: no request fails, the service is the
// same process, and the unit is never down.
func TestSelfUpgrade(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, "upgrade.timeout = \"20s\"\n"+config("-version=0", "-serve=http"))
		s.must("cp", supervisorPath, supervisorPath+".good")
		s.must("systemctl", "start", unitName)
		l := s.load(load.Config{Workers: 4, Rate: backgroundRate})
		l.versions(1)
		pid := s.live()
		broken := []string{"", "garbage", "#!/bin/sh\nexit 3\n", "", "#!/bin/sh\nkill -KILL $$\n", ""}
		for i := range 20 {
			was := s.show(unitName, "MainPID")
			script := broken[i%len(broken)]
			if i >= 10 {
				script = ""
			}
			s.replaceSupervisor(script)
			r := s.run(supervisorPath+".good", "upgrade", "--name", "svc")
			s.replaceSupervisor("") // for the commands
			now := s.show(unitName, "MainPID")
			if (r.Status == 0) != (script == "") || (now != was) != (script == "") {
				t.Fatalf("upgrade %d to %q: process %s, and was %s: %s", i, script, now, was, r)
			}
			if script == "" && !strings.Contains(r.Stdout, now) {
				t.Errorf("upgrade %d: %s", i, r)
			}
			if got := s.live(); got != pid {
				t.Fatalf("upgrade %d: the service is process %d, and was %d", i, got, pid)
			}
		}
		was := s.show(unitName, "MainPID")
		s.must("kill", "-USR2", was)
		s.eventually("another main process", func() bool { return s.show(unitName, "MainPID") != was && s.live() == pid })
		s.expect("after 21 upgrades", map[string]string{"ActiveState": "active", "SubState": "running", "NRestarts": "0"})
		// It can do all that the first one could.
		s.write(configPath, config("-version=1", "-serve=http"))
		l.handoff()
		s.eventually("the old generation is gone", func() bool { return len(s.status().Generations) == 1 })
		s.killSupervisor()
		if s.live() == pid {
			t.Error("the old version is live")
		}
		result := l.stop()
		t.Logf("%s", result)
		if n := result.Failed(); n > 0 {
			t.Errorf("%d requests failed", n)
		}
		s.must("systemctl", "stop", unitName)
		if left, err := s.UnitProcesses(unitName); err != nil || len(left) > 0 {
			t.Errorf("after the stop, there are %+v, %v", left, err)
		}
	})
}

// TestRestart restarts the unit under load: connections wait, and none is refused.
func TestRestart(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		for _, mode := range []string{"steered", "shared"} {
			s := supervise(t, m, "mode = \""+mode+"\"\n"+config("-version="+mode+"0"))
			s.must("systemctl", "start", unitName)
			l := s.load(load.Config{Workers: 4, Rate: backgroundRate})
			l.versions(1)
			for i := range 3 {
				s.write(configPath, "mode = \""+mode+"\"\n"+config(fmt.Sprintf("-version=%s%d", mode, i+1)))
				began := time.Now()
				s.must("systemctl", "restart", unitName)
				l.handoffs = append(l.handoffs, load.Interval{From: began, To: time.Now()})
				l.versions(i + 2)
			}
			result := l.stop()
			t.Logf("%s: %s", mode, result)
			if j := result.Judge(l.handoffs); j.Verdict != load.Clean {
				t.Errorf("%s: %s", mode, j)
			}
			s.must("systemctl", "stop", unitName)
		}
	})
}

// TestManagerReloadsInAHandoff has systemd read its units anew, and execute itself anew, while a handoff is under way.
func TestManagerReloadsInAHandoff(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config("-version=0", "-serve=http"))
		s.must("systemctl", "start", unitName)
		l := s.load(load.Config{Workers: 2, Rate: backgroundRate})
		l.versions(1)
		for i, verb := range []string{"daemon-reload", "daemon-reexec"} {
			soaks := "handoff.soak = \"1m\"\n" + config(fmt.Sprintf("-version=%d", i+1), "-serve=http")
			s.write(configPath, soaks)
			r := s.reloadInBackground(upgrade.Soaking)
			s.must("systemctl", verb)
			s.must(supervisorPath, "promote")
			// systemctl(1) itself does not survive the second: its connection to systemd ends.
			if got := s.over(r); got.Status != 0 && !(verb == "daemon-reexec" && strings.Contains(got.Stderr, "onnection")) {
				t.Errorf("reload with %s in the middle: %s", verb, got)
			}
			s.eventually("the handoff is over", func() bool { return s.status().Current == nil })
			if last := s.status().Last; last.Handoff != i+2 || last.Outcome != upgrade.OutcomeDone {
				t.Errorf("%s: the last handoff is %+v", verb, last)
			}
			s.eventually("systemd knows", func() bool { return s.show(unitName, "ActiveState") == "active" })
			l.handoffs = append(l.handoffs, load.Interval{From: r.began, To: time.Now()})
			l.versions(i + 2)
			s.expect(verb, map[string]string{"ActiveState": "active", "SubState": "running", "NRestarts": "0"})
		}
		result := l.stop()
		t.Logf("%s", result)
		if j := result.Judge(l.handoffs); j.Verdict != load.Clean {
			t.Errorf("%s", j)
		}
	})
}

// TestKilledInUpgrade kills the supervisor at random moments while it is being replaced. Whoever has the service then, it is one, and
// systemd knows it; the service is the same process, and no request fails.
func TestKilledInUpgrade(t *testing.T) {
	const kills = 12
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config("-version=0", "-serve=http"))
		s.must("systemctl", "start", unitName)
		l := s.load(load.Config{Workers: 2, Rate: backgroundRate})
		l.versions(1)
		pid := s.live()
		came := map[string]int{}
		for range kills {
			was := s.show(unitName, "MainPID")
			upgraded := make(chan struct{})
			go func() {
				defer close(upgraded)
				s.run(supervisorPath, "upgrade")
			}()
			time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond) // not to wait for anything: to hit any moment
			if s.run("kill", "-KILL", was).Status == 0 {
				came["killed"]++
			} else {
				came["too late"]++
			}
			<-upgraded
			s.eventually("one supervisor that systemd knows", func() bool {
				main := s.show(unitName, "MainPID")
				var st struct{ PID int }
				r := s.run(supervisorPath, "status", "--json")
				return r.Status == 0 && json.Unmarshal([]byte(r.Stdout), &st) == nil && strconv.Itoa(st.PID) == main &&
					main != was && s.show(unitName, "ActiveState") == "active"
			})
			if got := s.live(); got != pid {
				t.Fatalf("the service is process %d, and was %d", got, pid)
			}
		}
		t.Log(came)
		if came["killed"] == 0 {
			t.Error("inconclusive: every kill came too late")
		}
		result := l.stop()
		t.Logf("%s", result)
		if n := result.Failed(); n > 0 {
			t.Errorf("%d requests failed", n)
		}
		s.must("systemctl", "stop", unitName)
		if left, err := s.UnitProcesses(unitName); err != nil || len(left) > 0 {
			t.Errorf("after the stop, there are %+v, %v", left, err)
		}
	})
}
