package config

import (
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// TestPresets shows that each preset sets keys of the configuration to values that are right, and is explained.
func TestPresets(t *testing.T) {
	t.Parallel()
	for _, p := range Presets() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			if !regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`).MatchString(p.Name) || !strings.HasSuffix(p.Doc, ".") || len(p.Doc) > 140 {
				t.Errorf("it is explained by %q", p.Doc)
			}
			if strings.Contains(p.Text, "\npreset =") || strings.Contains(p.Text, "\n[[socket]]") {
				t.Error("it sets what a preset does not")
			}
			c := load(t, source(t, "", "--preset", p.Name, "--listen", "127.0.0.1:8080", "--", "app"))
			if c.Preset != p.Name {
				t.Errorf("the configuration names %q", c.Preset)
			}
			// As the user's own file it says the same.
			own := load(t, source(t, write(t, t.TempDir(), "p.toml", p.Text), "--listen", "127.0.0.1:8080", "--", "app"))
			own.Preset, own.Places = c.Preset, c.Places
			if got, want := toJSON(t, c), toJSON(t, own); got != want {
				t.Errorf("as a preset it says\n%s\nand as a file\n%s", got, want)
			}
		})
	}
}

// TestPresetGivesWay shows what wins over a preset.
func TestPresetGivesWay(t *testing.T) {
	t.Parallel()
	c := load(t, source(t, "", "--preset=nginx", "--listen=:1", "--", "app"))
	if !slices.Equal(c.Pass, []child.Pass{child.PassNginx}) || c.Ready.By != ByAccept || c.Drain.Signal != unix.SIGQUIT {
		t.Errorf("the preset alone: %+v", c)
	}
	// In the file the preset may stand anywhere, and wins over nothing; what it sets for another way to get ready is no mistake of the user's.
	file := write(t, t.TempDir(), "a.toml", "pass = []\ncommand = ['app']\n[ready]\nby = 'delay'\n[drain]\ntimeout = '1s'\n[[socket]]\nlisten = 'unix:///run/a'\n")
	c = load(t, source(t, file, "--preset=nginx", "--drain-signal=INT"))
	if c.Pass == nil || len(c.Pass) > 0 || c.Ready.By != ByDelay || c.Drain.Signal != unix.SIGINT {
		t.Errorf("with keys of the user's own: %+v", c)
	}
	if c := load(t, source(t, "", "--preset=nginx", "--pass=", "--listen=:1", "--", "app")); c.Pass == nil || len(c.Pass) > 0 {
		t.Errorf("with an empty flag: %q", c.Pass)
	}
	other := write(t, t.TempDir(), "b.toml", "command = ['app']\n[drain]\nsignal = 'HUP'\n[[socket]]\nlisten = ':1'\n")
	c = load(t, source(t, write(t, t.TempDir(), "c.toml", "preset = 'haproxy'\ncommand = ['app']\n[[socket]]\nlisten = ':1'\n"), "--preset=nginx"))
	if c.Preset != "nginx" || c.Drain.Signal != unix.SIGQUIT {
		t.Errorf("the flag's preset does not win over the file's: %+v", c)
	}
	if c = load(t, source(t, other, "--preset=nginx")); c.Drain.Signal != unix.SIGHUP {
		t.Errorf("the file's signal does not win over the flag's preset: %+v", c)
	}
}

func TestPassAndPresetProblems(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--preset=ngnix"}, `--preset: there is no preset "ngnix" (did you mean "nginx"?)`},
		{[]string{"--preset=nginx", "--mode=shared"}, `--preset: "nginx" sets ready.by, which is "accept", which needs a socket that can be steered`},
		{[]string{"--pass=nginx", "--pass=nginy"}, `--pass: "nginy" is not one of`},
		{[]string{"--pass=nginx", "--environment=NGINX=3;"}, `--environment: NGINX is set by the supervisor itself, as pass = ["nginx"] says`},
		{[]string{"--ready-by=einhorn"}, `--ready-by: is "einhorn", which needs pass to have "einhorn"`},
		{[]string{"--pass=php-fpm", "--listen=@a"}, `--pass: php-fpm has no way to be told of the socket @a`},
	} {
		args := append(tc.args, "--", "app")
		if len(tc.args) < 2 || !strings.HasPrefix(tc.args[1], "--listen") {
			args = append([]string{"--listen=:1"}, args...)
		}
		_, err := source(t, "", args...).Load()
		var problems Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: got %v, want %s", tc.args, err, tc.want)
		}
	}
}

// TestOwnedVariables shows that the variables of a protocol that is not used are the user's.
func TestOwnedVariables(t *testing.T) {
	t.Parallel()
	c := load(t, source(t, "", "--environment=NGINX=3;", "--listen=:1", "--", "app"))
	if !maps.Equal(c.Environment, map[string]string{"NGINX": "3;"}) {
		t.Errorf("got %v", c.Environment)
	}
}

func toJSON(t *testing.T, c *Config) string {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
