package standalone

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Everything that can be wrong with a configuration is told in one sentence with file, line and key. At the start it
// ends with exit status 2; on a reload nothing changes.
func TestBadConfigurations(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // the parallel parts run after this function
	const socket = "[[socket]]\nname = \"main\"\nlisten = \"tcp://127.0.0.1:0\"\n"
	for _, tc := range []struct {
		name string
		text string // after name, command, runtime-directory and state-directory, on line 5
		want []string
	}{
		{"unknown key", "umaks = \"022\"\n" + socket, []string{"test.toml:5", `"umaks"`, `did you mean "umask"`}},
		{"unknown key in a table", socket + "[ready]\ntimout = \"3s\"\n", []string{"test.toml:9", "timout", "timeout"}},
		{"wrong type", "directory = 3\n" + socket, []string{"test.toml:5", "directory"}},
		{"bad duration", socket + "[drain]\ntimeout = \"3 parsecs\"\n", []string{"test.toml:9", "drain.timeout", "parsecs"}},
		{"bad signal", socket + "[drain]\nsignal = \"SIGNOTHING\"\n", []string{"test.toml:9", "drain.signal", "SIGNOTHING"}},
		{"duplicate name", socket + strings.Replace(socket, ":0", ":1", 1), []string{"test.toml:", "socket", `main`}},
		{"bad socket", "[[socket]]\nlisten = \"tpc://:80\"\n", []string{"test.toml:6", "socket.listen", "tpc"}},
		{"port in use", fmt.Sprintf("[[socket]]\nlisten = \"tcp://%s\"\n", taken.Addr()), []string{"test.toml:6", "socket.listen", "in use"}},
		{"not TOML", "[[socket\n", []string{"test.toml:5"}},
		{"empty command", "", []string{"command"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			// At the start.
			dir := shortDir(t)
			path := filepath.Join(dir, "test.toml")
			service := `["/bin/sleep", "60"]`
			if tc.name == "empty command" {
				service = "[]"
			}
			head := fmt.Sprintf("name = \"test\"\ncommand = %s\nruntime-directory = %q\nstate-directory = %q\n", service, dir+"/run", dir+"/state")
			if err := os.WriteFile(path, []byte(head+tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			status, _, stderr := command(t, "run", "--config", path)
			if status != 2 {
				t.Errorf("exit status %d", status)
			}
			check := func(when, text string) {
				for _, want := range tc.want {
					if !strings.Contains(text, want) {
						t.Errorf("%s: %q is not in %q", when, want, text)
					}
				}
			}
			check("start", stderr)

			// On a reload.
			s := start(t, configuration{mode: "good"})
			before := s.settled()
			head = strings.ReplaceAll(head, dir, s.dir)
			if err := os.WriteFile(filepath.Join(s.dir, "test.toml"), []byte(head+tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			status, _, stderr = s.reload()
			if status != 1 {
				t.Errorf("reload: exit status %d", status)
			}
			check("reload", stderr)
			if after := s.settled(); after.PID != before.PID {
				t.Errorf("pid %d serves, before it was %d", after.PID, before.PID)
			}
		})
	}
}

func TestUnreadableConfiguration(t *testing.T) {
	t.Parallel()
	status, _, stderr := command(t, "run", "--config", "/no/such/file.toml")
	if status != 2 || !strings.Contains(stderr, "/no/such/file.toml") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}

// The exit statuses and the messages of what goes wrong before anything is asked of a supervisor.
func TestUsage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"relaod"}, 2, "relaod"},
		{[]string{"run", "--lisen", ":80"}, 2, "--lisen"},
		{[]string{"run"}, 2, "command"},
		{[]string{"reload", "extra"}, 2, "extra"},
		{[]string{"reload", "--control", "/no/such/socket"}, 3, "/no/such/socket"},
		{[]string{"status", "--name", "no-such-supervisor"}, 3, "no-such-supervisor"},
		{[]string{"--help"}, 0, ""},
		{[]string{"--version"}, 0, ""},
	} {
		status, _, stderr := command(t, tc.args...)
		if status != tc.status || !strings.Contains(stderr, tc.want) {
			t.Errorf("%q: exit status %d, want %d: %s", tc.args, status, tc.status, stderr)
		}
		if strings.Contains(stderr, "goroutine") || strings.Count(stderr, "\n") > 1 {
			t.Errorf("%q: more than one sentence: %s", tc.args, stderr)
		}
	}
}
