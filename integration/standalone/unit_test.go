package standalone

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What unit prints starts the same supervisor from another directory: every flag is in it, and no path is relative.
func TestUnitCommandLine(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	for name, text := range map[string]string{"env": "A=B\n", "app.toml": "name = \"app\"\ncommand = [\"/bin/sleep\", \"60\"]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	execStart := func(args ...string) string {
		t.Helper()
		status, stdout, stderr := commandIn(t, dir, append([]string{"unit"}, args...)...)
		if status != 0 {
			t.Fatalf("unit %q: exit status %d: %s", args, status, stderr)
		}
		_, rest, _ := strings.Cut(stdout, "\nExecStart=")
		line, _, _ := strings.Cut(rest, "\n")
		return strings.TrimPrefix(line, program+" run ")
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--config", "app.toml"}, "--config " + dir + "/app.toml"},
		{[]string{"--config", "app.toml", "--drain-timeout", "5s"}, "--name=app --config=" + dir + "/app.toml --drain-timeout=5s"},
		{[]string{"--environment-file", "env", "--environment-file", "-missing", "--listen", "127.0.0.1:0", "--", "/bin/sleep", "60"},
			"--name=sleep --directory=" + dir + " --environment-file=" + dir + "/env --environment-file=-" + dir + "/missing --listen=127.0.0.1:0 -- /bin/sleep 60"},
	} {
		if got := execStart(tc.args...); got != tc.want {
			t.Errorf("unit %q:\n got %s\nwant %s", tc.args, got, tc.want)
		}
	}
	// A symbolic link by which versions are changed stays one.
	link := filepath.Join(dir, "zddsupervisor")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	unit, err := exec.Command(link, "unit", "--config", filepath.Join(dir, "app.toml")).Output()
	if err != nil || !strings.Contains(string(unit), "\nExecStart="+link+" run ") {
		t.Errorf("unit, called as %s: %v:\n%s", link, err, unit)
	}
	if status, _, stderr := commandIn(t, dir, "unit", "--config", "app.toml", "--runtime-directory", "/run/elsewhere"); status != 2 || !strings.Contains(stderr, "runtime-directory") {
		t.Errorf("a runtime directory of one's own: exit status %d: %s", status, stderr)
	}
}

// The name is the supervisor's for as long as it runs.
func TestNameCannotChange(t *testing.T) {
	t.Parallel()
	s := start(t, configuration{mode: "v1"})
	path := filepath.Join(s.dir, "test.toml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), `name = "test"`, `name = "other"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := s.reload(); status != 1 || !strings.Contains(stderr, `"test"`) {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	s.settled()
}
