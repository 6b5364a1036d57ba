package standalone

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// Releases are deployed under load, good ones and bad ones, installed from a directory and from archives: a bad one leaves the link
// and the process as they were, and no request is lost.
func TestDeploy(t *testing.T) {
	t.Parallel()
	p := newSite(t, "v1", "v2")
	p.release("exits", "-exit-after=0s", "-exit-status=3")
	p.release("late", "-never-ready")
	s := start(t, p.configuration("[ready]\ntimeout = \"2s\"\n"))
	s.runs("v1")
	client := s.loaded(4)
	answers := func(version string) {
		t.Helper()
		if err := client.Version(t.Context(), version); err != nil {
			t.Fatal(err)
		}
	}
	if out := s.mustDeploy("deploy", "v2"); !strings.Contains(out, "(v2) is live") {
		t.Errorf("it printed\n%s", out)
	}
	p.pointsTo("v2")
	answers("v2")
	if r := s.status().Last; r.Kind != upgrade.KindDeploy || r.FromRelease != "v1" || r.ToRelease != "v2" || r.Outcome != upgrade.OutcomeDone ||
		!slices.Equal(r.By, []string{fmt.Sprintf("uid %d", os.Getuid())}) {
		t.Errorf("the record is %+v", r)
	}
	before := s.settled()
	for release, reason := range map[string]string{"exits": "exit status 3", "late": "READY=1"} {
		s.mustNotDeploy(1, []string{"handoff", "failed at step ready", reason}, "deploy", release)
		p.pointsTo("v2")
		s.only(before)
		if r := s.status().Last; r.Kind != upgrade.KindDeploy || r.ToRelease != release || r.Outcome != upgrade.OutcomeFailed {
			t.Errorf("the record is %+v", r)
		}
	}
	if out := s.mustDeploy("deploy", "v2", "--again"); !strings.Contains(out, "(v2) is live") {
		t.Errorf("it printed\n%s", out)
	}
	if after := s.settled(); after.PID == before.PID || after.Release != "v2" {
		t.Errorf("%+v is live", after)
	}

	build := filepath.Join(shortDir(t), "v3")
	p.build(build, "v3")
	if out := s.mustDeploy("deploy", "--from", build); !strings.Contains(out, "install") {
		t.Errorf("it printed\n%s", out)
	}
	p.pointsTo("v3")
	answers("v3")
	for name, flag := range map[string]string{"v4.tar": "-cf", "v5.tar.gz": "-czf"} {
		version, _, _ := strings.Cut(name, ".")
		p.build(build, version)
		path := filepath.Join(shortDir(t), name)
		if out, err := exec.Command("tar", "-C", build, flag, path, ".").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s.mustDeploy("deploy", "--from", path)
		p.pointsTo(version)
		answers(version)
	}
	p.build(build, "v6")
	s.mustDeploy("deploy", "--from", build, "named")
	p.pointsTo("named")
	answers("v6")
	s.runs("named")
	mustLoseNothing(t, client)
	if want := []string{"exits", "late", "named", "v1", "v2", "v3", "v4", "v5"}; !slices.Equal(p.releases(), want) {
		t.Errorf("the releases are %q", p.releases())
	}
}

// Whatever a deploy is refused for, it is told in a sentence, and nothing was touched.
func TestDeployRefused(t *testing.T) {
	t.Parallel()
	p := newSite(t, "v1", "v2")
	p.release("no-program")
	os.Remove(p.path("no-program") + "/bin/app")
	p.release("not-executable")
	if err := os.Chmod(p.path("not-executable")+"/bin/app", 0o644); err != nil {
		t.Fatal(err)
	}
	other := shortDir(t)
	if err := os.Symlink("/", p.path("away")); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(other, "text.tar")
	if err := os.WriteFile(text, []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(other, "links"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(other, "links", "l")); err != nil {
		t.Fatal(err)
	}
	s := start(t, p.configuration(""))
	before, handoffs := s.settled(), s.status().Handoffs
	untouched := func() {
		t.Helper()
		s.only(before)
		if n := s.status().Handoffs; n != handoffs {
			t.Errorf("there were %d handoffs", n-handoffs)
		}
		if want := []string{"away", "no-program", "not-executable", "v1", "v2"}; !slices.Equal(p.releases(), want) {
			t.Errorf("the releases are %q", p.releases())
		}
	}
	for _, tc := range []struct {
		status int
		parts  []string
		args   []string
	}{
		{1, []string{`"v3" is not in ` + p.dir + "/releases", "did you mean"}, []string{"deploy", "v3"}},
		{1, []string{`"elsewhere" is not in`, "there are", "v1"}, []string{"deploy", "elsewhere"}},
		{1, []string{p.path("away"), "is not a directory"}, []string{"deploy", "away"}},
		{1, []string{"no-program cannot be started", p.path("no-program") + "/bin/app", "is it built?"}, []string{"deploy", "no-program"}},
		{1, []string{"not-executable cannot be started", "is not executable", "chmod +x"}, []string{"deploy", "not-executable"}},
		{1, []string{"release v1 is live already", "generation 1", "--again"}, []string{"deploy", "v1"}},
		{1, []string{"release v1 is live already"}, []string{"rollback", "v1"}},
		{2, []string{`"../v1"`, "slash"}, []string{"deploy", "../v1"}},
		{2, []string{`".v1"`, "dot"}, []string{"rollback", ".v1"}},
		{2, []string{"which release", "--from"}, []string{"deploy"}},
		{2, []string{"takes one release"}, []string{"deploy", "v1", "v2"}},
		{1, []string{"cannot install /no/such", "no such file"}, []string{"deploy", "--from", "/no/such"}},
		{1, []string{"there is such a release already", p.path("v2"), "another"}, []string{"deploy", "--from", other, "v2"}},
		{1, []string{"cannot install " + text, "no archive"}, []string{"deploy", "--from", text}},
		{1, []string{`the link "l"`, "absolute"}, []string{"deploy", "--from", filepath.Join(other, "links")}},
		{1, []string{"cannot install /dev/null", "neither a directory nor an archive"}, []string{"deploy", "--from", "/dev/null"}},
		{1, []string{"no release to go back to from v1", "zddsupervisor rollback RELEASE"}, []string{"rollback"}},
	} {
		s.mustNotDeploy(tc.status, tc.parts, tc.args...)
		untouched()
	}
	p.pointsTo("v1")
	if status, _, stderr := command(t, "deploy", "v2", "--control", "/no/such/socket"); status != 3 || !strings.Contains(stderr, "is it started?") {
		t.Errorf("without a supervisor: exit status %d: %s", status, stderr)
	}

	// The link itself.
	relink := func(target string) {
		t.Helper()
		os.Remove(p.current())
		if err := os.Symlink(target, p.current()); err != nil {
			t.Fatal(err)
		}
	}
	for target, part := range map[string]string{other: "is not in " + p.dir + "/releases", "releases/gone": "is not a directory"} {
		relink(target)
		for _, args := range [][]string{{"deploy", "v2"}, {"deploy", "--from", filepath.Dir(testservice), "new"}, {"rollback", "v2"}} {
			s.mustNotDeploy(1, []string{"current", part, "ln -sfnT"}, args...)
		}
		if got, _ := os.Readlink(p.current()); got != target {
			t.Errorf("it points to %s now", got)
		}
	}
	os.Remove(p.current())
	s.mustNotDeploy(1, []string{"current", "no such file", "ln -sfnT"}, "deploy", "v2")
	if err := os.Mkdir(p.current(), 0o755); err != nil {
		t.Fatal(err)
	}
	s.mustNotDeploy(1, []string{"is not a symbolic link", "ln -sfnT"}, "deploy", "v2")
	os.Remove(p.current())
	relink("releases/v1")
	untouched()

	// Another handoff is under way.
	p.release("slow", "-never-ready")
	under := make(chan string, 1)
	go func() {
		_, _, stderr := command(t, "deploy", "slow", "--control", s.control())
		under <- stderr
	}()
	s.at(upgrade.Warming)
	for _, args := range [][]string{{"deploy", "v2"}, {"rollback", "v2"}, {"deploy", "--from", filepath.Dir(testservice), "new"}} {
		s.mustNotDeploy(1, []string{"has to be alone", "deploy 2 to release slow is at step ready", "zddsupervisor abort"}, args...)
	}
	p.pointsTo("slow")
	if status, _, stderr := command(t, "abort", "--control", s.control()); status != 0 {
		t.Fatalf("abort: %s", stderr)
	}
	if stderr := <-under; !strings.Contains(stderr, "aborted") {
		t.Errorf("the deploy that was aborted says %s", stderr)
	}
	p.pointsTo("v1")
	s.only(before)

	// No releases.
	plain := start(t, tested("v0"))
	plain.mustNotDeploy(1, []string{"no [releases] in the configuration", "releases.directory"}, "deploy", "v1")
	plain.mustNotDeploy(1, []string{"no [releases] in the configuration"}, "rollback")
}

// A configuration that is broken when a release is deployed is told with its place, and nothing changes.
func TestDeployBadConfiguration(t *testing.T) {
	t.Parallel()
	p := newSite(t, "v1", "v2")
	s := start(t, p.configuration(""))
	before := s.settled()
	p.configuration("umaks = \"022\"").write(t, s.dir)
	s.mustNotDeploy(1, []string{"test.toml:", "umaks"}, "deploy", "v2")
	p.pointsTo("v1")
	s.only(before)
}

// The supervisor is killed in the middle of a deploy, and started again: where the new release had not got the connections, the link
// and the service are as before, and where it had, it is live.
func TestKilledInDeploy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		phase upgrade.Phase
		flags []string
		more  string
		then  string
	}{
		{upgrade.Checking, nil, "[check]\ncommand = [\"/bin/sleep\", \"60\"]\ntimeout = \"90s\"\n", "v1"},
		{upgrade.Warming, []string{"-never-ready"}, "", "v1"},
		{upgrade.Soaking, nil, "[handoff]\nsoak = \"60s\"\n", "v2"},
	} {
		t.Run(tc.phase.String(), func(t *testing.T) {
			t.Parallel()
			p := newSite(t, "v1")
			p.release("v2", tc.flags...)
			r := startReign(t, p.configuration(""))
			before := r.settled()
			client := r.loaded(2)
			p.configuration(tc.more).write(t, r.dir)
			done := make(chan struct{})
			go func() {
				defer close(done)
				command(t, "deploy", "v2", "--control", r.control())
			}()
			r.until("step "+tc.phase.String(), func(st *control.Status) bool { return st.Phase == tc.phase.String() })
			p.pointsTo("v2")
			end(t, r.status().PID, unix.SIGKILL)
			<-done
			r.again()
			r.runs(tc.then)
			p.pointsTo(tc.then)
			if tc.then == "v1" {
				r.only(before)
				if last := r.status().Last; last.Kind != upgrade.KindDeploy || last.Outcome != upgrade.OutcomeFailed || last.ToRelease != "v2" {
					t.Errorf("the last handoff is %+v", last)
				}
			}
			p.configuration("").write(t, r.dir)
			p.release("v3")
			r.mustDeploy("deploy", "v3")
			p.pointsTo("v3")
			mustLoseNothing(t, client)
		})
	}
}

// The supervisor is stopped in the middle of a deploy: the link is as before, so that the next start does not run what was never live.
func TestStoppedInDeploy(t *testing.T) {
	t.Parallel()
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGQUIT} {
		p := newSite(t, "v1")
		p.release("v2", "-never-ready")
		s := start(t, p.configuration(""))
		done := make(chan struct{})
		go func() {
			defer close(done)
			command(t, "deploy", "v2", "--control", s.control())
		}()
		s.at(upgrade.Warming)
		s.signal(sig)
		if status := s.wait(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		<-done
		p.pointsTo("v1")
	}
}

// The service dies while a deploy is under way, which fails then: it is started again from the release before.
func TestDiesInDeploy(t *testing.T) {
	t.Parallel()
	p := newSite(t, "v1")
	p.release("v2", "-never-ready")
	s := start(t, p.configuration("[ready]\ntimeout = \"2s\"\n"))
	before := s.settled()
	done := make(chan int)
	go func() {
		status, _, _ := command(t, "deploy", "v2", "--control", s.control())
		done <- status
	}()
	s.at(upgrade.Warming)
	end(t, before.PID, unix.SIGKILL)
	if status := <-done; status != 1 {
		t.Errorf("exit status %d", status)
	}
	s.runs("v1")
	p.pointsTo("v1")
}

// Old releases go, but not those that something still needs.
func TestReleasesKeep(t *testing.T) {
	t.Parallel()
	p := newSite(t, "v1")
	c := p.configuration("", "keep = 2")
	s := start(t, c)
	for _, release := range []string{"v2", "v3", "v4"} {
		p.release(release)
		s.mustDeploy("deploy", release)
	}
	s.until("the old ones are gone", func(*control.Status) bool { return slices.Equal(p.releases(), []string{"v3", "v4"}) })
	// One that a generation still runs stays, however old.
	goOn := filepath.Join(p.dir, "go on")
	p.release("v5", "'-go-on="+goOn+"'")
	s.mustDeploy("deploy", "v5")
	p.configuration("[drain]\ntimeout = \"60s\"\n", "keep = 1").write(t, s.dir)
	for _, release := range []string{"v6", "v7"} {
		p.release(release)
		s.mustDeploy("deploy", release)
	}
	s.until("all but two", func(st *control.Status) bool { return len(st.Generations) == 2 && len(p.releases()) <= 3 })
	if names := p.releases(); !slices.Contains(names, "v5") || !slices.Contains(names, "v7") || slices.Contains(names, "v4") {
		t.Errorf("the releases are %q", names)
	}
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.runs("v7")
}
