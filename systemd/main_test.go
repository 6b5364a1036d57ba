package systemd

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// helperEnv makes the test binary one of the helper programs.
const helperEnv = "SYSTEMD_TEST_HELPER"

var helpers = map[string]func() error{
	"inherited":   inheritedHelper,
	"watchdog":    watchdogHelper,
	"notify":      notifyHelper,
	"few-fds":     fewDescriptorsHelper,
	"other-umask": umaskHelper,
}

func TestMain(m *testing.M) {
	if helper := helpers[os.Getenv(helperEnv)]; helper != nil {
		if err := helper(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	before := descriptors()
	code := m.Run()
	if leak := waitForLeaks(before); code == 0 && leak != "" {
		fmt.Fprintln(os.Stderr, leak)
		code = 1
	}
	os.Exit(code)
}

// waitForLeaks returns what is left of descriptors and goroutines, once it has
// had time to go.
func waitForLeaks(before map[string]bool) string {
	var leak string
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		leak = leaks(before)
		if leak == "" {
			return ""
		}
	}
	return leak
}

func leaks(before map[string]bool) string {
	var left strings.Builder
	for fd := range descriptors() {
		if !before[fd] {
			fmt.Fprintln(&left, "leaked descriptor:", fd)
		}
	}
	var stacks bytes.Buffer
	pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	for _, stack := range strings.Split(stacks.String(), "\n\n")[1:] { // the first is this one
		// What the runtime and package testing keep is not ours.
		if strings.Contains(stack, "zddsupervisor/systemd.") {
			fmt.Fprintln(&left, "leaked goroutine:", stack)
		}
	}
	return left.String()
}

// descriptors returns the open descriptors, as number and target. Those of the
// runtime's poller come with the first use and stay.
func descriptors() map[string]bool {
	open := make(map[string]bool)
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		target, err := os.Readlink("/proc/self/fd/" + entry.Name())
		if err != nil || strings.HasPrefix(target, "anon_inode:[event") {
			continue // err: the descriptor that ReadDir used
		}
		open[entry.Name()+" "+target] = true
	}
	return open
}

// helperCommand returns a command that runs one of the helpers.
func helperCommand(t testing.TB, name string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	// The race detector otherwise lets each helper sleep a second before it exits.
	cmd.Env = append(os.Environ(), helperEnv+"="+name, "GORACE=atexit_sleep_ms=0")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// run runs a helper and returns what it printed.
func run(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helper: %v\n%s", err, stderr.String())
	}
	return string(out)
}

// shortDir returns a directory whose path leaves room for a socket's name; that
// of t.TempDir has the test's name in it.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func socketPath(t testing.TB) string {
	t.Helper()
	return filepath.Join(shortDir(t), "notify")
}
