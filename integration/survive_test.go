package integration_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// killSupervisor kills the supervisor with SIGKILL, and waits until systemd has started another one that answers.
func (s *supervised) killSupervisor() {
	s.t.Helper()
	pid := s.show(unitName, "MainPID")
	s.must("kill", "-KILL", pid)
	s.eventually("another supervisor", func() bool {
		now := s.show(unitName, "MainPID")
		return now != pid && now != "0" && s.run(supervisorPath, "status").Status == 0
	})
}

// The supervisor is killed while the service serves, in steered and in shared mode: the service is the same process, and no
// request is lost.
func TestKilledSupervisor(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		for _, mode := range []string{"steered", "shared"} {
			s := supervise(t, m, "mode = \""+mode+"\"\n"+config("-version=1", "-serve=http"))
			s.must("systemctl", "start", unitName)
			l := s.load(load.Config{Workers: 4, Rate: backgroundRate})
			l.versions(1)
			pid := s.live()
			for range 3 {
				s.killSupervisor()
				s.expect("after a kill", map[string]string{"ActiveState": "active", "SubState": "running"})
				if got := s.live(); got != pid {
					t.Fatalf("%s: the service is process %d, and was %d", mode, got, pid)
				}
			}
			// It can do all that the one before could.
			s.write(configPath, "mode = \""+mode+"\"\n"+config("-version=2", "-serve=http"))
			if mode == "steered" {
				l.handoff()
			} else if r := s.reload(); r.Status != 0 {
				t.Fatalf("reload: %s", r)
			}
			s.eventually("the old generation is gone", func() bool { return len(s.status().Generations) == 1 })
			result := l.stop()
			t.Logf("%s: %s", mode, result)
			if n := result.Failed(); n > 0 && mode == "steered" {
				t.Errorf("%s: %d requests failed", mode, n)
			}
			if n := result.Count(load.Refused); n > 0 {
				t.Errorf("%s: %d connections were refused", mode, n)
			}
			s.must("systemctl", "stop", unitName)
			if left, err := s.UnitProcesses(unitName); err != nil || len(left) > 0 {
				t.Errorf("%s: after the stop, there are %+v, %v", mode, left, err)
			}
		}
	})
}

// The supervisor is killed at random moments while handoffs run, one after the other, under load: the handoff ends by rule,
// the service is never down, and no request is lost.
func TestKilledInHandoff(t *testing.T) {
	const kills = 13 // on each systemd, in each mode
	onEach(t, func(t *testing.T, m *testMachine) {
		for _, mode := range []string{"steered", "shared"} {
			// Shared, net/http would lose some by itself.
			serve := map[string]string{"steered": "-serve=http", "shared": "-serve=finish"}[mode]
			version := func(i int) string {
				return "mode = \"" + mode + "\"\n" + config(fmt.Sprintf("-version=%s%d", mode, i), serve, "-ready-after=50ms")
			}
			s := supervise(t, m, version(0))
			s.must("systemctl", "start", unitName)
			l := s.load(load.Config{Workers: 4, Rate: backgroundRate})
			l.versions(1)
			phases := make(map[string]int)
			for i := range kills {
				s.write(configPath, version(i+1))
				before := s.live()
				reload := make(chan struct{})
				go func() {
					defer close(reload)
					s.run(supervisorPath, "reload")
				}()
				time.Sleep(time.Duration(rand.IntN(250)) * time.Millisecond) // not to wait for anything: to hit any moment
				s.killSupervisor()
				<-reload
				var st upgrade.Status
				s.eventually("one generation is live and no other is there", func() bool {
					st = s.status()
					return len(st.Generations) == 1 && st.Generations[0].Role == upgrade.RoleLive && st.Current == nil
				})
				if st.Last != nil {
					phases[string(st.Last.Outcome)+" "+st.Last.Phase]++
				}
				if st.Generations[0].PID != before && st.Last.Outcome != upgrade.OutcomeDone {
					t.Errorf("kill %d: the live process has changed from %d to %d, and the last handoff is %+v", i, before, st.Generations[0].PID, st.Last)
				}
			}
			t.Logf("%s: what the handoffs came to: %v", mode, phases)
			result := l.stop()
			t.Logf("%s: %s", mode, result)
			if n := result.Failed(); n > 0 {
				t.Errorf("%s: %d requests failed, at %v as the journal counts", mode, n, sinceBoot(t, result))
			}
			if restarts, _ := strconv.Atoi(s.show(unitName, "NRestarts")); restarts < kills {
				t.Errorf("systemd has restarted the supervisor %d times", restarts)
			}
			if journal := s.must("journalctl", "--no-pager", "--unit", unitName); strings.Contains(journal, "panic") {
				t.Errorf("%s", journal)
			}
			s.must("systemctl", "stop", unitName)
			if left, err := s.UnitProcesses(unitName); err != nil || len(left) > 0 {
				t.Errorf("after the stop, there are %+v, %v", left, err)
			}
		}
	})
}

// sinceBoot says when requests failed, in seconds since the machine was started.
func sinceBoot(t *testing.T, r *load.Result) (at []string) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	booted := time.Now().Add(-time.Duration(now.Nano()))
	for _, q := range r.Requests {
		if q.Kind != load.OK {
			at = append(at, fmt.Sprintf("%.3f (since %.3f)", r.Begin.Add(q.End).Sub(booted).Seconds(), r.Begin.Add(q.Start).Sub(booted).Seconds()))
		}
	}
	return at
}

// A state file that cannot be used is not acted upon: what is left of the service is ended, and it is started anew.
func TestUnusableState(t *testing.T) {
	onOne(t, func(t *testing.T, m *testMachine) {
		// The processes of the tree stay until they are killed.
		s := supervise(t, m, strings.Replace(config("-version=1", "-tree=2", "-tree-setsid"), `timeout = "10s"`, `timeout = "500ms"`, 1))
		s.must("systemctl", "start", unitName)
		const path = "/run/zddsupervisor/svc/state.json"
		for _, mangle := range []string{
			"truncate --size=-20 " + path,
			"echo garbage > " + path,
			": > " + path,
			`sed -i 's/"version":1,/"version":999,/' ` + path,
			`sed -i 's/"boot":"[^"]*"/"boot":"another"/' ` + path,
			`sed -i 's/"phase":"[^"]*"/"phase":"unheard of"/' ` + path,
			"rm " + path,
			"rm " + path + "; ln -s /etc/passwd " + path,
		} {
			before, supervisor := s.live(), s.show(unitName, "MainPID")
			s.must("kill", "-STOP", supervisor) // so that it cannot write another one
			s.must("sh", "-c", mangle)
			s.must("kill", "-KILL", supervisor)
			s.eventually("another supervisor has started the service", func() bool {
				now := s.show(unitName, "MainPID")
				return now != supervisor && now != "0" && s.run("curl", "--silent", "--max-time", "10", "http://"+address+"/").Status == 0 &&
					s.run(supervisorPath, "status").Status == 0
			})
			if now := s.live(); now == before {
				t.Errorf("%s: process %d is live again", mangle, now)
			}
			if got := s.answers(); got != "1" {
				t.Errorf("%s: version %q answers", mangle, got)
			}
			if r := s.run("kill", "-0", strconv.Itoa(before)); r.Status == 0 {
				t.Errorf("%s: process %d is left", mangle, before)
			}
			if r := s.reload(); r.Status != 0 {
				t.Errorf("%s: reload: %s", mangle, r)
			}
			s.eventually("the old generation is gone", func() bool { return len(s.status().Generations) == 1 })
		}
		s.must("systemctl", "stop", unitName)
		if left, err := s.UnitProcesses(unitName); err != nil || len(left) > 0 {
			t.Errorf("after the stop, there are %+v, %v", left, err)
		}
	})
}
