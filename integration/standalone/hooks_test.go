package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/history"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A hook notes what it was told, and then does what a shell makes of the text.
func hook(name, notes, then string) string {
	script := fmt.Sprintf(`echo "%s $ZDD_NAME $ZDD_HANDOFF gen=$ZDD_GENERATION rel=$ZDD_RELEASE prev=$ZDD_PREVIOUS_GENERATION/$ZDD_PREVIOUS_RELEASE {generation} $0" >> %s; %s`,
		name, notes, then)
	return fmt.Sprintf("%s = [\"/bin/sh\", \"-c\", %s, \"{release}\"]\n", name, strconv.Quote(script))
}

// notesIn reads what hooks have noted.
func notesIn(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// Each hook is run at its time, with what it has to know, for a deploy, a reload and a restart.
func TestHooks(t *testing.T) {
	t.Parallel()
	p := newSite(t, "v1", "v2")
	notes := filepath.Join(p.dir, "notes")
	s := start(t, p.configuration("[hooks]\n"+hook("before-cutover", notes, "true")+hook("after-live", notes, "true")+hook("after-gone", notes, "true")))
	client := s.loaded(2)
	s.mustDeploy("deploy", "v2")
	// It was run before the answer.
	want := []string{
		"before-cutover test 1 gen=1 rel=v1 prev=/ 1 v1", "after-live test 1 gen=1 rel=v1 prev=/ 1 v1",
		"before-cutover test 2 gen=2 rel=v2 prev=1/v1 2 v2", "after-live test 2 gen=2 rel=v2 prev=1/v1 2 v2",
	}
	if got := notesIn(t, notes); len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("noted is %q", got)
	}
	want = append(want, "after-gone test 2 gen=1 rel=v1 prev=/ 1 v1")
	s.eventually("the old one is gone", func() bool { return slices.Equal(notesIn(t, notes), want) })
	r := s.mustReload()
	if len(r.Hooks) != 1 || r.Hooks[0].Hook != "after-live" || r.Hooks[0].Error != "" || r.Hooks[0].Generation != 3 {
		t.Errorf("the record is %+v", r)
	}
	if i := slices.IndexFunc(r.Steps, func(s upgrade.StepTime) bool { return s.Name == "before-cutover" }); i < 0 {
		t.Errorf("the steps are %+v", r.Steps)
	}
	mustLoseNothing(t, client)
}

// A hook that fails, hangs or cannot be run: before the cutover it fails the handoff, and behind it that is told, and no more.
func TestHooksFail(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ then, reason string }{
		"exits":  {"exit 3", "ended (exit status 3)"},
		"hangs":  {"sleep 60", "did not end within 1s (hooks.timeout)"},
		"cannot": {"", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSite(t, "v1", "v2")
			notes := filepath.Join(p.dir, "notes")
			bad := func(key string) string {
				if tc.then == "" {
					return "[hooks]\ntimeout = \"1s\"\n" + key + " = [\"/no/such/hook\"]\n"
				}
				return "[hooks]\ntimeout = \"1s\"\n" + hook(key, notes, tc.then)
			}
			s := start(t, p.configuration(""))
			before := s.settled()
			client := s.loaded(2)
			p.configuration(bad("before-cutover")).write(t, s.dir)
			s.mustNotDeploy(1, []string{"failed at step before-cutover", "hooks.before-cutover", tc.reason}, "deploy", "v2")
			p.pointsTo("v1")
			s.only(before)

			p.configuration(bad("after-live")).write(t, s.dir)
			out := s.mustDeploy("deploy", "v2")
			if !strings.Contains(out, "hooks.after-live") || !strings.Contains(out, tc.reason) || !strings.Contains(out, "(v2) is live") {
				t.Errorf("it printed\n%s", out)
			}
			p.pointsTo("v2")
			s.recorded("the hook", func(e history.Entry) bool {
				return len(e.Hooks) > 0 && e.Hooks[0].Hook == "after-live" && strings.Contains(e.Hooks[0].Error, tc.reason)
			})
			// The generation that goes has the configuration that it was started with.
			p.configuration(bad("after-gone")).write(t, s.dir)
			s.mustDeploy("deploy", "v1")
			s.mustDeploy("deploy", "v2")
			s.recorded("the hook", func(e history.Entry) bool {
				return len(e.Hooks) > 0 && e.Hooks[0].Hook == "after-gone" && e.Hooks[0].Release == "v1" && strings.Contains(e.Hooks[0].Error, tc.reason)
			})
			if _, table, _ := command(t, "history", "--control", s.control()); !strings.Contains(table, "hooks.after-gone") {
				t.Errorf("the history is\n%s", table)
			}
			s.runs("v2")
			mustLoseNothing(t, client)
		})
	}
}

// A stop does not wait for hooks: what runs is ended, with all its processes, whoever waits gets an answer, and none is begun any more.
func TestStopEndsHooks(t *testing.T) {
	t.Parallel()
	p := newSite(t, "v1", "v2")
	notes := filepath.Join(p.dir, "notes")
	s := start(t, p.configuration(""))
	p.configuration("[hooks]\ntimeout = \"90s\"\n"+hook("after-live", notes, "sleep 80; true")+hook("after-gone", notes, "true")).write(t, s.dir)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.deploy("deploy", "v2")
	}()
	s.eventually("the hook runs", func() bool { return strings.Contains(notesIn(t, notes)[0], "after-live") })
	if st := s.status(); st.Phase != upgrade.Idle.String() || live(st).Release != "v2" {
		t.Errorf("the status is %+v", st)
	}
	if _, err := s.client.Upgrade(t.Context()); err == nil || !strings.Contains(err.Error(), "a hook still runs") {
		t.Errorf("upgrade: %v", err)
	}
	s.signal(unix.SIGTERM)
	s.wait()
	<-done
	if got := notesIn(t, notes); len(got) != 1 {
		t.Errorf("noted is %q", got)
	}
}

// A release that ends by itself soon after its deploy is followed by the one before, once: whatever becomes of that, nothing goes back
// any further, and nothing forth.
func TestAutoRollback(t *testing.T) {
	t.Parallel()
	p := newSite(t, "v1", "v2")
	p.release("dies")
	s := start(t, p.configuration("[handoff]\nprobation = \"30s\"\nauto-rollback = true\n"))
	client := s.loaded(2)
	s.mustDeploy("deploy", "v2")
	s.runs("v2")
	s.mustDeploy("deploy", "dies")
	end(t, s.live().PID, unix.SIGKILL)
	s.runs("v2")
	p.pointsTo("v2")
	back := s.recorded("the rollback", func(e history.Entry) bool { return e.Kind == upgrade.KindAutoRollback })
	if back.FromRelease != "dies" || back.ToRelease != "v2" || back.Outcome != upgrade.OutcomeDone || len(back.By) != 0 {
		t.Errorf("the rollback is %+v", back)
	}
	died := s.recorded("the end", func(e history.Entry) bool { return e.Ended != nil && e.Ended.Probation })
	if died.ToRelease != "dies" || died.Kind != upgrade.KindDeploy {
		t.Errorf("what ended is %+v", died)
	}
	if result := client.Stop(); result.Count(load.Refused) > 0 {
		t.Errorf("%s", describeLoad(result))
	}
	// The one that was gone back to ends too: it is started again, and that is all.
	was := s.live()
	end(t, was.PID, unix.SIGKILL)
	s.until("v2 is started again", func(st *control.Status) bool {
		g := live(st)
		return g != nil && g.Release == "v2" && g.Number > was.Number && st.Current == nil && len(st.Generations) == 1
	})
	p.pointsTo("v2")
	s.recorded("the restart", func(e history.Entry) bool { return e.Kind == upgrade.KindRestart && e.Handoff > back.Handoff })
	// And the one that has failed is none to go back to.
	s.mustDeploy("rollback")
	s.runs("v1")
	p.pointsTo("v1")
}

// Without handoff.auto-rollback, and after it is over, and where there is nothing to go back to, the same release is started again.
func TestNoAutoRollback(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{
		"off":            "probation = \"30s\"\n",
		"over":           "probation = \"1ms\"\nauto-rollback = true\n",
		"a reload":       "probation = \"30s\"\nauto-rollback = true\n",
		"none is before": "probation = \"30s\"\nauto-rollback = true\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newSite(t, "v1", "v2")
			s := start(t, p.configuration("[handoff]\n"+more))
			release := "v2"
			switch name {
			case "a reload":
				s.mustDeploy("deploy", "v2")
				s.mustReload()
			case "none is before":
				release = "v1"
				s.mustDeploy("deploy", "v1", "--again")
			default:
				s.mustDeploy("deploy", "v2")
			}
			s.runs(release)
			was := s.live()
			end(t, was.PID, unix.SIGKILL)
			s.until("it is started again", func(st *control.Status) bool {
				g := live(st)
				return g != nil && g.Number > was.Number && st.Current == nil && len(st.Generations) == 1
			})
			s.runs(release)
			p.pointsTo(release)
			if last := s.status().Last; last.Kind != upgrade.KindRestart {
				t.Errorf("the last handoff is %+v", last)
			}
		})
	}
}
