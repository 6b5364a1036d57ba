package standalone

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The README's first command.
func TestDemo(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := command(t, "demo")
	for again := 0; again < 3 && strings.Contains(stderr, "too busy"); again++ {
		status, stdout, stderr = command(t, "demo")
	}
	if status != 0 {
		t.Fatalf("exit status %d: %s%s", status, stdout, stderr)
	}
	for _, want := range []string{"v2   live", "broken on purpose", "the old version serves on", "v6   live", "answered through 4 handoffs", "clean: "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not in:\n%s", want, stdout)
		}
	}
}

// Somebody presses Ctrl-C: nothing is left.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	c := exec.Command(program, "demo")
	c.Env = append(os.Environ(), "TMPDIR="+dir)
	out := &buffer{}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); !strings.Contains(out.String(), "deploy v2"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no deploy is seen:\n%s", out)
		}
	}
	c.Process.Signal(unix.SIGINT)
	if err := c.Wait(); err == nil {
		t.Error("it says that all went well")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
