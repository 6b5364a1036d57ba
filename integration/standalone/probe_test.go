package standalone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A journaled is a file in which the testservice writes what it gets.
type journaled string

func newJournal(t *testing.T) journaled { return journaled(filepath.Join(t.TempDir(), "journal")) }

func (j journaled) flag() string { return "-log=" + string(j) }

// lines is what is in it: "conn PEER" and "GET URI PEER".
func (j journaled) lines(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(string(j))
	if err != nil && !os.IsNotExist(err) { // a service that was not started has none
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// lacks fails the test if a request for a path is in it.
func (j journaled) lacks(t *testing.T, path string) {
	t.Helper()
	for _, line := range j.lines(t) {
		if strings.HasPrefix(line, "GET "+path) {
			t.Errorf("%s: got %q", filepath.Base(filepath.Dir(string(j))), line)
		}
	}
}

// probeFails hands off to a version whose probe begins to answer with another status at a phase, once it serves as that phase has it:
// all goes back to the old one, nothing is lost, and the reload says why.
func probeFails(t *testing.T, phase upgrade.Phase, more, status string, serves func(*supervisor, *load.Client)) {
	t.Helper()
	health := filepath.Join(t.TempDir(), "health")
	probed := "[probe]\npath = \"/health\"\ninterval = \"20ms\"\n"
	s := start(t, tested("v0").with(probed))
	before := s.settled()
	client := s.loaded(8)
	reload := s.reloadTo(tested("v1", "-health-file="+health).with(probed + more))
	s.at(phase)
	serves(s, client)
	setHealth(t, health, status)
	reload.mustFail("GET /health", status, phase.String())
	failed := time.Now()
	s.only(before)
	s.allBy("v0")
	result := client.Stop()
	if result.Failed() > 0 {
		t.Errorf("%s", result)
	}
	noneSince(t, result, "v1", failed)
}

// setHealth lets a service whose health is in a file answer with a status from now on.
func setHealth(t *testing.T, file, status string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(status), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// What the load asks for, and where what the probe asks for begins with.
const clientPath, probePath = "/ ", "/health?for="

// Until the cutover the new version gets nothing but the probes, as many as it takes, and the old one none of them. The first start
// has a probe too.
func TestProbeGoesToTheNewOne(t *testing.T) {
	t.Parallel()
	old, fresh := newJournal(t), newJournal(t)
	s := start(t, tested("v0", old.flag()).with("[probe]\npath = \"/health?for=0\"\n"))
	client := s.loaded(8)
	s.reloadTo(tested("v1", fresh.flag()).with("[probe]\npath = \"/health?for=1&sleep=200ms\"\ncount = 3\n")).must()
	s.settled()
	s.allBy("v1")
	if result := client.Stop(); result.Failed() > 0 {
		t.Errorf("%s", result)
	}
	old.lacks(t, probePath+"1")
	fresh.lacks(t, probePath+"0")
	old.beginsWith(t, probePath+"0", 1)
	fresh.beginsWith(t, probePath+"1&sleep=200ms", 3)
}

// beginsWith fails the test if the first that the service got were not n requests for a path, each on a connection of its own from
// this machine, or if it got more of them.
func (j journaled) beginsWith(t *testing.T, path string, n int) {
	t.Helper()
	lines := j.lines(t)
	for i := range n {
		conn, request := lines[2*i], lines[2*i+1]
		_, peer, _ := strings.Cut(conn, " ")
		if !strings.HasPrefix(peer, "127.0.0.1:") || request != "GET "+path+" "+peer {
			t.Errorf("%q and %q are no probe for %s", conn, request, path)
		}
	}
	if all := strings.Count(strings.Join(lines, "\n"), "GET "+path); all != n {
		t.Errorf("%d probes for %s, want %d", all, path, n)
	}
}

// A version that says it is ready and fails its probe never gets a client; nothing of the old one has changed; and no probe, not one
// that still waited to be accepted either, gets to the old one.
func TestProbeFails(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		probe   string // after path =, for=1 in it
		flags   []string
		reasons []string
		asked   int // how often the service got the probe
	}{
		{"wrong status", `"/health?for=1&status=500"`, nil, []string{"GET /health?for=1", "500"}, 1},
		{"not the status that is wanted", "\"/health?for=1\"\nstatus = 204", nil, []string{"200", "204"}, 1},
		{"no answer in time", "\"/health?for=1&sleep=30s\"\ntimeout = \"300ms\"", nil, []string{"300ms", "probe.timeout"}, 1},
		{"nobody accepts", "\"/health?for=1\"\ntimeout = \"300ms\"", []string{"-serve-after=10m"}, []string{"300ms", "probe.timeout"}, 0},
		{"the last of three", "\"/health?for=1&status=404&from=3\"\ncount = 3", nil, []string{"probe 3 of 3", "404"}, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			old, fresh := newJournal(t), newJournal(t)
			s := start(t, tested("v0", old.flag()).with("[probe]\npath = \"/health?for=0\"\n"))
			before := s.settled()
			client := s.loaded(2)
			bad := tested("v1", append(tc.flags, fresh.flag())...)
			s.reloadTo(bad.with("[probe]\npath = " + tc.probe + "\n[drain]\ntimeout = \"1s\"\n")).mustFail(append(tc.reasons, "probe")...)
			s.only(before)
			s.allBy("v0")
			if result := client.Stop(); result.Failed() > 0 || len(result.Versions) != 1 {
				t.Errorf("%v answered: %s", result.Versions, result)
			}
			fresh.lacks(t, clientPath)
			old.lacks(t, probePath+"1")
			if n := strings.Count(strings.Join(fresh.lines(t), "\n"), "GET "+probePath+"1"); n != tc.asked {
				t.Errorf("the new version got %d probes, want %d", n, tc.asked)
			}
			s.reloadTo(tested("v2").with("[probe]\npath = \"/health?for=2\"\n")).must()
			s.settled()
			s.allBy("v2")
		})
	}
}

// The new version stops to run in the middle of the canary. The probe notices, what waits for it goes to the old one, but for the
// probe, and what it has accepted it finishes when it is woken.
func TestNewGenerationStallsInCanary(t *testing.T) {
	t.Parallel()
	old, fresh := newJournal(t), newJournal(t)
	s := start(t, tested("v0", "-serve=finish", old.flag()).with("[probe]\npath = \"/health?for=0\"\n"))
	before := s.settled()
	client := s.loaded(8)
	probed := "[probe]\npath = \"/health?for=1\"\ninterval = \"20ms\"\ntimeout = \"500ms\"\n"
	reload := s.reloadTo(tested("v1", "-serve=finish", fresh.flag()).with(probed + canary("50%:10m")))
	stalls := s.at(upgrade.Sharing)
	if err := client.Version(t.Context(), "v1"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(stalls.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	reload.mustFail("no answer within 500ms")
	s.only(before)
	s.allBy("v0")
	if result := client.Stop(); result.Failed() > 0 {
		t.Errorf("%s", result)
	}
	old.lacks(t, probePath+"1")
}

// Ready by an answer over HTTP, and by an accepted connection: the first version and a slow one, and never one of the old version's.
func TestReadyByAsking(t *testing.T) {
	t.Parallel()
	const slow = 500 * time.Millisecond
	for _, tc := range []struct {
		name  string
		ready func(version string) string
	}{
		{"http", func(v string) string {
			return "by = \"http\"\ninterval = \"20ms\"\npath = \"/health?for=" + v + "&status=503&until=3\"\n"
		}},
		{"accept", func(string) string { return "by = \"accept\"\ninterval = \"20ms\"\n" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			old, fresh := newJournal(t), newJournal(t)
			s := start(t, tested("v0", "-never-ready", old.flag()).with("[ready]\n"+tc.ready("0")))
			client := s.loaded(2)
			s.reloadTo(tested("v1", "-never-ready", "-serve-after="+slow.String(), fresh.flag()).with("[ready]\n" + tc.ready("1"))).must()
			after := s.settled()
			if took := after.Ready.Sub(after.Started); took < slow {
				t.Errorf("ready after %s", took)
			}
			s.allBy("v1")
			old.lacks(t, probePath+"1")
			if result := client.Stop(); result.Failed() > 0 {
				t.Errorf("%s", result)
			}
			if tc.name == "http" {
				if n := strings.Count(strings.Join(fresh.lines(t), "\n"), "GET "+probePath+"1"); n != 4 {
					t.Errorf("it was ready after %d questions, want 4", n)
				}
			}
		})
	}
}

// A version that does not answer well is never ready, and the reason says what is wrong.
func TestNeverReadyByAsking(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		ready   string
		flags   []string
		reasons []string
	}{
		{"http, wrong status", "by = \"http\"\npath = \"/health?for=1&status=503\"\ninterval = \"20ms\"\n", nil, []string{"503", `ready.by = "http"`, "1s"}},
		{"http, no answer", "by = \"http\"\npath = \"/health?for=1\"\ninterval = \"20ms\"\n", []string{"-serve-after=10m"}, []string{`ready.by = "http"`, "1s"}},
		{"accept", "by = \"accept\"\ninterval = \"20ms\"\n", []string{"-serve-after=10m"}, []string{`ready.by = "accept"`, "1s", "accept"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			old, fresh := newJournal(t), newJournal(t)
			s := start(t, tested("v0", old.flag()))
			before := s.settled()
			client := s.loaded(2)
			s.reloadTo(tested("v1", append(tc.flags, "-never-ready", fresh.flag())...).with("[ready]\ntimeout = \"1s\"\n" + tc.ready)).mustFail(tc.reasons...)
			s.only(before)
			if result := client.Stop(); result.Failed() > 0 || len(result.Versions) != 1 {
				t.Errorf("%v answered: %s", result.Versions, result)
			}
			fresh.lacks(t, clientPath)
			old.lacks(t, probePath+"1")
		})
	}
}
