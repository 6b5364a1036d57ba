package standalone

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A rollback goes to the release that was live before, forward through the same handoff, and from there to the one before that, and
// not back to what was given up. It is known after the supervisor was stopped and started, too.
func TestRollback(t *testing.T) {
	t.Parallel()
	p := newSite(t, "v1", "v2", "v3")
	p.release("bad", "-exit-after=0s")
	r := startReign(t, p.configuration(""))
	client := r.loaded(4)
	r.mustDeploy("deploy", "v2")
	r.mustDeploy("deploy", "v3")
	r.mustNotDeploy(1, []string{"failed at step ready"}, "deploy", "bad")
	r.runs("v3")
	before := r.live().Number
	if out := r.mustDeploy("rollback"); !strings.Contains(out, "(v2) is live") {
		t.Errorf("it printed\n%s", out)
	}
	p.pointsTo("v2")
	if err := client.Version(t.Context(), "v2"); err != nil {
		t.Fatal(err)
	}
	r.runs("v2")
	if last := r.status().Last; last.Kind != upgrade.KindRollback || last.FromRelease != "v3" || last.ToRelease != "v2" || last.To <= before {
		t.Errorf("the record is %+v", last)
	}
	mustLoseNothing(t, client)

	generation, handoffs := r.live().Number, r.status().Handoffs
	r.signal(unix.SIGTERM)
	r.wait()
	r.again()
	r.runs("v2")
	if g := r.live().Number; g != generation+1 {
		t.Errorf("after generation %d came %d", generation, g)
	}
	if n := r.status().Handoffs; n != handoffs+1 {
		t.Errorf("after handoff %d came %d", handoffs, n)
	}
	r.mustDeploy("rollback")
	r.runs("v1")
	p.pointsTo("v1")
	r.mustNotDeploy(1, []string{"no release to go back to from v1", "zddsupervisor rollback RELEASE"}, "rollback")
	r.mustDeploy("deploy", "v3")
	r.runs("v3")
	// The last good one is not there any more.
	for _, gone := range []string{"v1", "v2"} {
		if err := os.RemoveAll(p.path(gone)); err != nil {
			t.Fatal(err)
		}
	}
	r.mustNotDeploy(1, []string{"no release to go back to", "is not in", "name one that is there"}, "rollback")
	p.pointsTo("v3")
}

// Where the service is down and does not come up, a rollback does not wait for that, and goes to what was there before; and from there not
// forth again.
func TestRollbackWhileDown(t *testing.T) {
	t.Parallel()
	p := newSite(t, "v1", "v2")
	r := startReign(t, p.configuration(""))
	r.mustDeploy("deploy", "v2")
	r.runs("v2")
	p.release("v2", "-never-ready")
	if err := unix.Kill(r.live().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.until("a start that gets nowhere", func(st *control.Status) bool {
		return live(st) == nil && st.Current != nil && st.Phase == "ready"
	})
	if out := r.mustDeploy("rollback"); !strings.Contains(out, "(v1) is live") {
		t.Errorf("it printed\n%s", out)
	}
	r.runs("v1")
	p.pointsTo("v1")
	r.mustNotDeploy(1, []string{"no release to go back to from v1"}, "rollback")
	r.signal(unix.SIGTERM)
	r.wait()
}
