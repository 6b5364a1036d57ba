package standalone

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A new version that shuts its socket down, so that new connections go to the old one, is not taken for one that answers: however its
// readiness is asked for, the handoff fails, and the old one serves on.
func TestShutsDown(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{
		"notify":       "",
		"http":         "[ready]\nby = \"http\"\ntimeout = \"3s\"\n",
		"accept":       "[ready]\nby = \"accept\"\ntimeout = \"3s\"\n",
		"in the soak":  "[handoff]\nsoak = \"10s\"\n",
		"with a probe": "[probe]\npath = \"/\"\n[handoff]\ncanary = \"50%:10s\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, tested("v0"))
			before := s.settled()
			client := s.loaded(2)
			flag := "-shutdown-after=0s"
			if name == "in the soak" || name == "with a probe" {
				flag = "-shutdown-after=1s"
			}
			s.reloadTo(tested("v1", flag).with(more)).mustFail("shut the socket down")
			s.only(before)
			if err := client.Answered(t.Context(), 100); err != nil {
				t.Fatal(err)
			}
			s.allBy("v0")
		})
	}
}

// A script that has changed something and then becomes the reload command gets a handoff that has read what it has changed, although
// its process began before another handoff did.
func TestScriptBecomesReload(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	tested("v2").write(t, s.dir)
	next := filepath.Join(s.dir, "next.toml")
	if out, err := exec.Command("mv", filepath.Join(s.dir, "test.toml"), next).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tested("v1").write(t, s.dir)
	begun := filepath.Join(s.dir, "begun")
	script := exec.Command("sh", "-c", `: > "$1"; while ! test -e "$1.over"; do sleep 0.05; done; mv "$2" "$3"; exec "$4" reload --control "$5"`,
		"sh", begun, next, filepath.Join(s.dir, "test.toml"), program, s.control())
	done := make(chan error, 1)
	go func() { done <- script.Run() }()
	for end := time.Now().Add(20 * time.Second); exec.Command("test", "-e", begun).Run() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the script does not begin")
		}
	}
	s.mustReload() // of somebody else's
	if out, err := exec.Command("touch", begun+".over").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.allBy("v2")
}
