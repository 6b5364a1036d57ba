package integration_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/machine"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// plainHTTP is a configuration for Go's net/http with this version, followed by tables of its own.
func plainHTTP(version int, more ...string) string {
	return config(fmt.Sprintf("-version=%d", version), "-serve=http") + strings.Join(more, "")
}

// onSystemdsSocket makes a configuration take the socket from its .socket unit, in this mode.
func onSystemdsSocket(config string, mode fdpass.Mode) string {
	return strings.Replace(config, fmt.Sprintf("listen = %q", "tcp://"+address), fmt.Sprintf("listen = \"systemd:web\"\nmode = %q", mode), 1)
}

// TestSteeredSystemdSocket hands off net/http on a socket that systemd has bound. With ReusePort=yes in its unit it is steered, and not a
// request fails; and it is still systemd's when the service has gone and comes again. Without, it is shared, which the status tells.
func TestSteeredSystemdSocket(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		version := 1
		next := func() string { version++; return onSystemdsSocket(plainHTTP(version), fdpass.Steered) }
		s := supervise(t, m, onSystemdsSocket(plainHTTP(version), fdpass.Steered))
		socket := fmt.Sprintf("[Socket]\nListenStream=%s\nFileDescriptorName=web\n", address)
		s.unit("svc.socket", socket+"ReusePort=yes\n")
		s.must("systemctl", "start", "svc.socket")
		for round := range 2 {
			l := s.load(load.Config{Rate: backgroundRate}) // starts the service, in the first round
			l.versions(1)
			if got := s.status().Sockets[0]; got.Mode != fdpass.Steered || len(got.Seats) == 0 {
				t.Errorf("the socket is %+v", got)
			}
			for range 4 { // the generations sit on systemd's socket and on one of the supervisor's in turn
				s.write(configPath, next())
				l.handoff()
			}
			s.eventually("the old one has gone", func() bool { return len(s.status().Generations) == 1 })
			result := l.stop()
			t.Logf("round %d: %s", round+1, result)
			if j := result.Judge(l.handoffs); j.Verdict != load.Clean {
				t.Errorf("round %d: %s", round+1, j)
			}
			// The last one sits on systemd's socket in the first round, and on another in the second.
			if round == 0 {
				s.write(configPath, next())
				if r := s.reload(); r.Status != 0 {
					t.Fatalf("reload: %s", r)
				}
			}
			s.must("systemctl", "stop", unitName)
			s.write(configPath, next())
			s.must("systemctl", "start", unitName)
			if got := s.answers(); got != fmt.Sprint(version) {
				t.Errorf("started again, version %q answers, and not %d", got, version)
			}
		}
		s.must("systemctl", "stop", unitName)
		s.write(configPath, next())
		if got := s.answers(); got != fmt.Sprint(version) { // systemd starts it
			t.Errorf("with only the .socket unit left, version %q answers, and not %d", got, version)
		}

		s.must("systemctl", "stop", "svc.socket", unitName)
		s.unit("svc.socket", socket)
		s.must("systemctl", "start", "svc.socket")
		s.must("systemctl", "start", unitName)
		if got := s.status().Sockets[0]; got.Mode != fdpass.Shared {
			t.Errorf("without ReusePort=yes, the socket is %+v", got)
		}
		if journal, err := s.Journal(t.Context(), unitName); err != nil || !strings.Contains(journal, "ReusePort=yes") {
			t.Errorf("the journal does not tell why the socket is shared: %v", err)
		}
		if r := s.reload(); r.Status != 0 {
			t.Errorf("reload of the shared socket: %s", r)
		}
	})
}

// TestRestartOnSteeredSystemdSocket restarts the unit under load while its service sits on a socket of the supervisor's own, beside systemd's:
// connections wait at systemd's, as they do where it is shared.
func TestRestartOnSteeredSystemdSocket(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		finishes := func(version string) string { return onSystemdsSocket(config("-version="+version), fdpass.Steered) }
		s := supervise(t, m, finishes("0"))
		s.unit("svc.socket", fmt.Sprintf("[Socket]\nListenStream=%s\nFileDescriptorName=web\nReusePort=yes\n", address))
		s.must("systemctl", "start", "svc.socket")
		l := s.load(load.Config{Rate: backgroundRate})
		l.versions(1)
		for i := range 2 {
			s.write(configPath, finishes(fmt.Sprint("reloaded-", i)))
			l.handoff()
			s.eventually("the new one sits on another socket than systemd's", func() bool {
				seats := s.status().Sockets[0].Seats
				return len(seats) == 2 && seats[0].Generation == 0 && seats[1].Share == 1
			})
			s.write(configPath, finishes(fmt.Sprint("restarted-", i)))
			began := time.Now()
			s.must("systemctl", "restart", unitName)
			l.handoffs = append(l.handoffs, load.Interval{From: began, To: time.Now()})
			l.versions(len(l.handoffs) + 1)
		}
		result := l.stop()
		t.Logf("%s", result)
		if j := result.Judge(l.handoffs); j.Verdict != load.Clean {
			t.Errorf("%s", j)
		}
	})
}

// backgroundReload is a "systemctl reload" that runs.
type backgroundReload struct {
	result chan machine.Result
	began  time.Time
}

// reloadInBackground runs "systemctl reload" until a step of it goes on, which the supervisor tells in a note.
func (s *supervised) reloadInBackground(step upgrade.Phase) *backgroundReload {
	s.t.Helper()
	r := &backgroundReload{result: make(chan machine.Result, 1), began: time.Now()}
	go func() {
		got, err := s.Run(s.t.Context(), "systemctl", "reload", unitName)
		if err != nil {
			got.Status, got.Stderr = -1, got.Stderr+err.Error()
		}
		r.result <- got
	}()
	s.eventually("step "+step.String(), func() bool { return s.status().Phase == step.String() })
	return r
}

// over waits for the end of the reload.
func (s *supervised) over(r *backgroundReload) machine.Result {
	s.t.Helper()
	select {
	case got := <-r.result:
		return got
	case <-time.After(runLimit):
		s.t.Fatal("systemctl reload does not end")
		return machine.Result{}
	}
}

// TestReloadSoaks hands off with a canary and a soak: the unit is reloading for as long as they last, and what becomes of them is what
// becomes of the reload.
func TestReloadSoaks(t *testing.T) {
	const canary, soak = 2 * time.Second, 3 * time.Second
	more := fmt.Sprintf("linger = \"1h\"\n[handoff]\ncanary = \"50%%:%s\"\nsoak = %q\n", canary, soak)
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, plainHTTP(1, more))
		s.must("systemctl", "start", unitName)
		mainPID := s.show(unitName, "MainPID")

		s.write(configPath, plainHTTP(2, more))
		r := s.reloadInBackground(upgrade.Sharing)
		s.expect("during the canary", map[string]string{"ActiveState": "reloading", "MainPID": mainPID})
		s.eventually("step soak", func() bool { return s.status().Phase == upgrade.Soaking.String() })
		s.expect("during the soak", map[string]string{"ActiveState": "reloading", "MainPID": mainPID})
		if got := s.over(r); got.Status != 0 {
			t.Errorf("reload: %s", got)
		}
		if took := time.Since(r.began); took < canary+soak {
			t.Errorf("the reload took %s, and canary and soak are %s", took, canary+soak)
		}
		s.expect("after the soak", map[string]string{"ActiveState": "active", "ReloadResult": "success", "MainPID": mainPID, "NRestarts": "0"})
		if got := s.answers(); got != "2" {
			t.Errorf("after the soak, version %q answers", got)
		}

		for _, step := range []upgrade.Phase{upgrade.Sharing, upgrade.Soaking} {
			live := s.live()
			s.write(configPath, plainHTTP(3, more))
			r = s.reloadInBackground(step)
			s.must(supervisorPath, "abort")
			if got := s.over(r); got.Status == 0 {
				t.Errorf("the reload succeeded, although it was aborted at step %s: %s", step, got)
			}
			s.expect("aborted at step "+step.String(), map[string]string{
				"ActiveState": "active", "ReloadResult": "exit-code", "MainPID": mainPID, "NRestarts": "0",
			})
			if got := s.answers(); got != "2" || s.live() != live {
				t.Errorf("aborted at step %s: version %q answers, pid %d is live and was %d", step, got, s.live(), live)
			}
			if text := s.show(unitName, "StatusText"); !strings.Contains(text, "aborted") {
				t.Errorf("aborted at step %s: the unit's status text is %q", step, text)
			}
		}

		r = s.reloadInBackground(upgrade.Soaking)
		began := time.Now()
		s.must("systemctl", "stop", unitName)
		if took := time.Since(began); took > 20*time.Second { // the linger of an hour must not count
			t.Errorf("the stop took %s", took)
		}
		if got := s.over(r); got.Status == 0 {
			t.Errorf("the reload succeeded, although the unit was stopped in its soak: %s", got)
		}
		s.expect("stopped in a soak", map[string]string{"ActiveState": "inactive", "Result": "success", "NRestarts": "0"})
		if left, err := s.UnitProcesses(unitName); err != nil || len(left) > 0 {
			t.Errorf("after the stop, there are %+v, %v", left, err)
		}
		s.must("systemctl", "start", unitName)
		if got := s.answers(); got != "3" {
			t.Errorf("started again, version %q answers", got)
		}
	})
}
