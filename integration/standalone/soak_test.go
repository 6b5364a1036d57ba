package standalone

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

const soaking = "[handoff]\nsoak = \"10m\"\n"

// The new version crashes in the soak: everything goes back to the process that served before, and nothing is started.
func TestSoakCrashes(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0", "-work=2ms").with(patient))
	before := s.settled()
	client := s.loaded(16)
	reload := s.reloadTo(tested("v1", "-work=2ms").with(patient + soaking))
	fresh := s.at(upgrade.Soaking)
	s.allBy("v1")
	died := kill(t, fresh.PID)
	reload.mustFail("generation 2 ended", "SIGKILL", "soak")
	s.only(before)
	s.allBy("v0")
	result := client.Stop()
	spared(t, result, died)
	noneSince(t, result, "v1", died.to)
	s.reloadTo(tested("v3")).must()
	if after := s.settled(); after.Number != 3 {
		t.Errorf("generation %d is live: more were started than that", after.Number)
	}
}

// The new version fails its probe in the soak: everything goes back, and no request fails.
func TestSoakProbeFails(t *testing.T) {
	t.Parallel()
	probeFails(t, upgrade.Soaking, soaking, "503", func(s *supervisor, _ *load.Client) { s.allBy("v1") })
}

// The live version of before crashes in the soak: there is nothing to go back to, and so nothing to wait for.
func TestLiveCrashesInSoak(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	before := s.settled()
	client := s.loaded(8)
	reload := s.reloadTo(tested("v1").with(soaking))
	fresh := s.at(upgrade.Soaking)
	died := kill(t, before.PID)
	reload.must()
	s.only(fresh)
	spared(t, client.Stop(), died)
}

// A reload that is asked for in the soak follows it, with the configuration of then; promote ends the soak, and abort takes back.
func TestReloadInSoak(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	client := s.loaded(4)
	began := s.settled()
	first := s.reloadTo(tested("v1").with(soaking))
	s.at(upgrade.Soaking)
	if live := s.live(); live.PID != began.PID {
		t.Errorf("pid %d is live in the soak, before it was %d", live.PID, began.PID)
	}
	second := s.reloadTo(tested("v2").with(soaking))
	s.until("a handoff that follows", func(st *control.Status) bool { return st.Waiting })
	select {
	case <-first.done:
		t.Error("the soak has ended")
	default:
	}
	s.allBy("v1")
	s.promote()
	first.must()
	s.at(upgrade.Soaking)
	s.allBy("v2")
	s.promote()
	second.must()
	before := s.settled()
	if before.Number != 3 {
		t.Errorf("generation %d is live", before.Number)
	}

	third := s.reloadTo(tested("v3").with(soaking))
	s.at(upgrade.Soaking)
	s.allBy("v3")
	s.abort()
	third.mustFail("aborted", "soak")
	s.only(before)
	s.allBy("v2")
	if result := client.Stop(); result.Failed() > 0 {
		t.Errorf("%s", result)
	}
}

// A soak comes to its end by itself, too.
func TestSoakEnds(t *testing.T) {
	t.Parallel()
	const soak = 500 * time.Millisecond
	s := start(t, tested("v0"))
	tested("v1").with("[handoff]\nsoak = \"500ms\"\n").write(t, s.dir)
	soaked := false
	for _, step := range s.mustReload().Steps {
		if step.Name == upgrade.Soaking.String() {
			soaked = true
			if step.Took < soak {
				t.Errorf("over after %s", step.Took)
			}
		}
	}
	if !soaked {
		t.Error("there was no soak")
	}
	s.settled()
	s.allBy("v1")
}

func TestStopInSoak(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	reload := s.reloadTo(tested("v1").with(soaking))
	s.at(upgrade.Soaking)
	s.stopWithin(reload)
}

// stopWithin stops the supervisor, and sees to it that nobody waits for what is left of the handoff.
func (s *supervisor) stopWithin(r *reloading) {
	s.t.Helper()
	s.stop()
	if status, _, stderr := r.wait(); status == 0 || !strings.Contains(stderr, "stopping") {
		s.t.Errorf("the reload: exit status %d, %s", status, stderr)
	}
}

// stop stops the supervisor in order.
func (s *supervisor) stop() {
	s.t.Helper()
	s.signal(unix.SIGTERM)
	if status := s.wait(); status != 0 {
		s.t.Errorf("exit status %d", status)
	}
	if left := s.descendants(); len(left) > 0 {
		s.t.Errorf("processes are left: %v", left)
	}
	if strings.Contains(s.log.String(), "killed what was left") {
		s.t.Error("a generation was killed that would have ended")
	}
}
