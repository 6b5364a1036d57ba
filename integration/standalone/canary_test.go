package standalone

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// The new version gets the share that it is to get; promote gives it all, and abort gives it back.
func TestCanary(t *testing.T) {
	t.Parallel()
	const share, n = 0.05, 20_000
	s := start(t, tested("v0"))
	reload := s.reloadTo(tested("v1").with(canary("5%:10m")))
	s.at(upgrade.Sharing)
	aboutOf(t, s.answers(n)["v1"], n, share)
	s.promote()
	reload.must()
	s.allBy("v1")
	before := s.settled()

	reload = s.reloadTo(tested("v2").with(canary("5%:10m")))
	s.at(upgrade.Sharing)
	aboutOf(t, s.answers(n)["v2"], n, share)
	s.abort()
	s.allBy("v1")
	reload.mustFail("aborted", "canary")
	s.only(before)
	if status, _, stderr := command(t, "promote", "--control", s.control()); status == 0 || !strings.Contains(stderr, "no canary") {
		t.Errorf("promote with nothing to promote: exit status %d, %s", status, stderr)
	}
	if status, _, stderr := command(t, "abort", "--control", s.control()); status == 0 || !strings.Contains(stderr, "no handoff") {
		t.Errorf("abort with nothing to abort: exit status %d, %s", status, stderr)
	}
}

// The share grows from step to step, and after the last it is everything. On a machine where so little happens in a step that nothing
// can be counted, it is tried again with longer ones.
func TestCanarySteps(t *testing.T) {
	t.Parallel()
	for step := 2 * time.Second; ; step *= 2 {
		all, hits, stdout := canarySteps(t, step)
		if all[0.1] == 0 || all[0.5] == 0 {
			if step > time.Minute {
				t.Fatalf("connections at these shares: %v", all)
			}
			continue
		}
		if len(all) != 3 || hits[1] != all[1] {
			t.Errorf("connections at these shares: %v, of the new version: %v", all, hits)
		}
		for _, share := range []float64{0.1, 0.5} {
			aboutOf(t, hits[share], all[share], share)
			if text := fmt.Sprintf("gets %g%% of new connections for %s", share*100, step); !strings.Contains(stdout, text) {
				t.Errorf("the command does not tell %q:\n%s", text, stdout)
			}
		}
		return
	}
}

// canarySteps hands off in steps of 10% and 50%, and counts, for each share, all connections and those of the new version.
func canarySteps(t *testing.T, step time.Duration) (all, hits map[float64]int, stdout string) {
	t.Helper()
	s := start(t, tested("v0"))
	reload := s.reloadTo(tested("v1").with(canary(fmt.Sprintf("10%%:%s, 50%%:%[1]s", step))))
	all, hits = make(map[float64]int), make(map[float64]int)
	share := func() float64 {
		return shareOf(s.until("the status", func(*control.Status) bool { return true }), 2)
	}
	for before := 0.0; before < 1; {
		const n = 50
		before = share()
		seen := s.answers(n)["v1"]
		if share() == before { // it never falls
			all[before] += n
			hits[before] += seen
		}
	}
	reload.must()
	s.allBy("v1")
	if hits[0] > 0 {
		t.Errorf("%d connections before it has a share", hits[0])
	}
	delete(all, 0)
	_, stdout, _ = reload.wait()
	return all, hits, stdout
}

// patient makes each wait for a generation so long that a client runs out of patience first: who has to wait for one fails.
const patient = "[settle]\nmax = \"60s\"\n"

// The new version crashes with half of the connections: those that it has not accepted go to the old one, and all that follow.
func TestCanaryCrashes(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0", "-work=2ms").with(patient))
	before := s.settled()
	client := s.loaded(16)
	reload := s.reloadTo(tested("v1", "-work=2ms").with(patient + canary("50%:10m")))
	fresh := s.at(upgrade.Sharing)
	if err := client.Version(t.Context(), "v1"); err != nil {
		t.Fatal(err)
	}
	died := kill(t, fresh.PID)
	reload.mustFail("generation 2 ended", "SIGKILL", "canary")
	s.only(before)
	s.allBy("v0")
	result := client.Stop()
	spared(t, result, died)
	noneSince(t, result, "v1", died.to)
	if _, _, stderr := reload.wait(); strings.Contains(stderr, "before it was ready") {
		t.Errorf("it was ready: %s", stderr)
	}
}

// The main process of the new version crashes, and the workers that it leaves behind serve what they have got: nothing fails.
func TestCanaryLeaderCrashes(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	before := s.settled()
	client := s.loaded(8)
	reload := s.reloadTo(tested("v1", "-work=2ms", "-workers=2").with(canary("50%:10m")))
	fresh := s.at(upgrade.Sharing)
	if err := client.Version(t.Context(), "v1"); err != nil {
		t.Fatal(err)
	}
	died := kill(t, fresh.PID)
	reload.mustFail("generation 2 ended", "canary")
	failed := time.Now()
	s.only(before)
	s.allBy("v0")
	result := client.Stop()
	if result.Failed() > 0 {
		t.Errorf("the process died from %s: %s", died.from.Sub(result.Begin), result)
	}
	noneSince(t, result, "v1", failed)
}

// The new version begins to fail its probe in the middle of the canary: nothing fails for clients.
func TestCanaryProbeFails(t *testing.T) {
	t.Parallel()
	probeFails(t, upgrade.Sharing, canary("50%:10m"), "500", func(s *supervisor, client *load.Client) {
		if err := client.Version(t.Context(), "v1"); err != nil {
			t.Fatal(err)
		}
	})
}

// The live version crashes in the middle of the canary: the new one takes everything, and nothing else is started.
func TestLiveCrashesInCanary(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0", "-work=2ms").with(patient))
	before := s.settled()
	client := s.loaded(16)
	reload := s.reloadTo(tested("v1", "-work=2ms").with(patient + canary("5%:10m")))
	fresh := s.at(upgrade.Sharing)
	died := kill(t, before.PID)
	reload.must()
	s.only(fresh)
	s.allBy("v1")
	result := client.Stop()
	spared(t, result, died)
	noneSince(t, result, "v0", died.to)
	if st := s.until("the status", func(*control.Status) bool { return true }); st.Handoffs != 2 {
		t.Errorf("%d handoffs", st.Handoffs)
	}
}

// While a canary lasts, a reload waits for its end, and a stop does not.
func TestStopInCanary(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	reload := s.reloadTo(tested("v1").with(canary("50%:10m")))
	s.at(upgrade.Sharing)
	s.stopWithin(reload)
}
