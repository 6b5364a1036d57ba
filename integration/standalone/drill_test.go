package standalone

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/drill"
)

// drillOf runs the drill command against a supervisor and returns its exit status, its report, and what else it said. It does so again
// where this machine was too busy for a verdict.
func drillOf(t *testing.T, s *supervisor, args ...string) (status int, rep *drill.Report, stderr string) {
	t.Helper()
	for again := 0; ; again++ {
		if status, rep, stderr = drillOnce(t, s, args...); !rep.Busy || again == 3 {
			return status, rep, stderr
		}
		t.Logf("once more: %s", rep.Reason)
	}
}

func drillOnce(t *testing.T, s *supervisor, args ...string) (status int, rep *drill.Report, stderr string) {
	t.Helper()
	status, stdout, stderr := command(t, append([]string{"drill", "--url", "http://" + s.address() + "/", "--json", "-", "--rate", "100", "--lead", "2s", "--gap", "1s"}, args...)...)
	rep = &drill.Report{}
	if err := json.Unmarshal([]byte(stdout), rep); err != nil {
		t.Fatalf("exit status %d, %v: %s%s", status, err, stdout, stderr)
	}
	return status, rep, stderr
}

// The supervisor tells the drill when the handoffs were, and deploys where nothing else is said.
func TestDrillAsksTheSupervisor(t *testing.T) {
	t.Parallel()
	s := start(t, configuration{mode: "v1"})
	page := filepath.Join(t.TempDir(), "drill.html")
	status, rep, stderr := drillOf(t, s, "--control", s.control(), "--times", "2", "--only", "new", "--html", page)
	if status != 0 || rep.Verdict != drill.Clean || len(rep.Handoffs) != 2 {
		t.Fatalf("exit status %d, %s: %s; %s", status, rep.Verdict, rep.Reason, stderr)
	}
	for _, h := range rep.Handoffs {
		if h.Seen != "supervisor" || len(h.Steps) < 3 {
			t.Errorf("%+v", h)
		}
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("<canvas")) {
		t.Errorf("the page: %v", err)
	}
}

// A supervisor says that there was no handoff, and that one failed.
func TestDrillOfNothing(t *testing.T) {
	t.Parallel()
	s := start(t, configuration{mode: "v1"})
	status, rep, _ := drillOf(t, s, "--control", s.control(), "--settle", "1s", "--reload", "true")
	if status != 4 || rep.Verdict != drill.Inconclusive {
		t.Errorf("exit status %d, %s: %s", status, rep.Verdict, rep.Reason)
	}
	configuration{mode: "v2:exit"}.write(t, s.dir)
	status, rep, _ = drillOf(t, s, "--control", s.control(), "--settle", "1s")
	if status != 4 || !strings.Contains(rep.Reason, "exit status 7") {
		t.Errorf("exit status %d, %s: %s", status, rep.Verdict, rep.Reason)
	}
}

// The command that deploys gets the number of the handoff, and what it says when it fails is told.
func TestDrillReloadCommand(t *testing.T) {
	t.Parallel()
	s := start(t, configuration{mode: "v1"})
	status, rep, stderr := drillOf(t, s, "--reload", "echo handoff $DRILL_HANDOFF cannot be made; exit 3")
	if status != 4 || !strings.Contains(rep.Reason, "handoff 1 cannot be made") || !strings.Contains(stderr, "handoff 1 cannot be made") {
		t.Errorf("exit status %d, %s: %s; %s", status, rep.Verdict, rep.Reason, stderr)
	}
}

// Ctrl-C gives the report so far.
func TestDrillInterrupted(t *testing.T) {
	t.Parallel()
	s := start(t, configuration{mode: "v1"})
	c := exec.Command(program, "drill", "--url", "http://"+s.address()+"/", "--control", s.control(), "--times", "50")
	var out, progress buffer
	c.Stdout, c.Stderr = &out, &progress
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); !strings.Contains(progress.String(), "handoff 1 of 50"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no handoff is seen: %s", &progress)
		}
	}
	c.Process.Signal(unix.SIGINT)
	c.Wait()
	if status := c.ProcessState.ExitCode(); status != 4 && status != 5 || !strings.Contains(out.String(), "of 50 handoffs") && status == 4 || !strings.Contains(out.String(), "disturbed") {
		t.Errorf("exit status %d: %s%s", status, &out, &progress)
	}
}

// What is wrong with the command line is told in a sentence, and nothing is done.
func TestDrillUsage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "--url"},
		{[]string{"--url", "http://127.0.0.1:1/"}, "--reload"},
		{[]string{"--url", "http://192.0.2.1/", "--reload", "true"}, "--allow-remote"},
		{[]string{"--url", "http://127.0.0.1:1/", "--reload", "true", "--rate", "100000"}, "100000"},
		{[]string{"--url", "http://127.0.0.1:1/", "--reload", "true"}, "does not answer"},
		{[]string{"--url", "http://127.0.0.1:1/", "--reload", "true", "--only", "old"}, "--only"},
		{[]string{"--url", "http://127.0.0.1:1/", "--reload", "true", "--times", "0"}, "--times"},
		{[]string{"--url", "http://127.0.0.1:1/", "--reload", "true", "--html", "/nowhere/drill.html"}, "/nowhere"},
	} {
		status, _, stderr := command(t, append([]string{"drill"}, test.args...)...)
		if status != 2 || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit status %d: %s", test.args, status, stderr)
		}
	}
}
