package config

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/logging"
)

// write writes a file below dir and returns its path.
func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// parseFlags returns a flag set that was given args, and what follows them.
func parseFlags(t testing.TB, args ...string) (*FlagSet, []string) {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags, flags.Args()
}

func source(t testing.TB, path string, args ...string) *Source {
	t.Helper()
	s := &Source{Path: path, WorkingDirectory: "/work", Getenv: env("RUNTIME_DIRECTORY=/run/x", "STATE_DIRECTORY=/state/x")}
	s.Flags, s.Args = parseFlags(t, args...)
	return s
}

func load(t testing.TB, s *Source) *Config {
	t.Helper()
	c, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// env returns a Getenv.
func env(entries ...string) func(string) string {
	return func(name string) string {
		for _, entry := range entries {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

func ptr(v uint32) *uint32 { return &v }

func TestLoadEverything(t *testing.T) {
	t.Parallel()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "releases/42/app", "")
	write(t, dir, "etc/env", "A=1\n")
	if err := os.Symlink("releases/42", filepath.Join(dir, "current")); err != nil {
		t.Fatal(err)
	}
	path := write(t, dir, "etc/app.toml", `
name = "app"
command = ["./app", "--fd", "{fd:http}", "--json", '{"a": {"b": 1}}']
directory = "../current"
environment-file = ["env", "-missing"]
user = "`+me.Uid+`"
group = "`+me.Gid+`"
umask = "0027"
mode = "steered"
cgroup = "off"
upgrade.timeout = "1m"
log.format = "json"
metrics.listen = ":9600"
watchdog = "10s"
fail-fast = true
runtime-directory = "/run/app"
state-directory = "state"

[environment]
RELEASE = "{release}"
"weird.name" = ""

[limits]
nofile = 65_536
core = "0:infinity"

[[socket]]
name = "http"
listen = "tcp://127.0.0.1:8080"
mode = "shared"
backlog = 0x10

[[socket]]
listen = "unix:///run/a&b?.sock?owner=root"
permissions = "0660"
group = "root"

[[socket]]
name = "admin"
listen = "tcp4://:8081"

[check]
command = ["app", "--check"]
timeout = "5s"

[ready]
by = "exec"
timeout = "1m"
command = [
  "curl", # with a comment
  "-f",
]
interval = "200ms"

[probe]
path = "/health?deep=1"
host = "app.example.org"
status = 204
count = 3
timeout = "1s"
interval = "500ms"
socket = "admin"

[handoff]
canary = "2.5%:30s, 50%"
canary-time = "1m"
soak = "2m"

[settle]
max = "500ms"

[drain]
linger = "20s"
signal = "quit"
timeout = "0s"
generations = 2

[releases]
directory = "../releases"
current = "../current"
`)
	// In the text of a socket '?' and '&' of a path are escaped.
	text, _ := os.ReadFile(path)
	write(t, dir, "etc/app.toml", strings.Replace(string(text), "a&b?.sock", "a%26b%3f.sock", 1))

	etc := filepath.Join(dir, "etc")
	want := &Config{
		Name:             "app",
		Command:          []string{"./app", "--fd", "{fd:http}", "--json", `{"a": {"b": 1}}`},
		Directory:        etc + "/../current",
		Environment:      map[string]string{"RELEASE": "{release}", "weird.name": ""},
		EnvironmentFiles: []string{etc + "/env", "-" + etc + "/missing"},
		User:             me.Uid,
		Group:            me.Gid,
		Umask:            ptr(0o027),
		Limits: []Limit{
			{Name: "core", Resource: unix.RLIMIT_CORE, Soft: 0, Hard: unix.RLIM_INFINITY},
			{Name: "nofile", Resource: unix.RLIMIT_NOFILE, Soft: 65536, Hard: 65536},
		},
		Sockets: []fdpass.Spec{
			{Name: "http", Network: fdpass.TCP, Address: "127.0.0.1:8080", Backlog: 16, Mode: fdpass.Shared},
			{Name: "unix-/run/a&b?.sock", Network: fdpass.Unix, Address: "/run/a&b?.sock", Permissions: 0o660, Owner: "root", Group: "root"},
			{Name: "admin", Network: fdpass.TCP4, Address: ":8081"},
		},
		Places:           []string{path + ":29: socket.listen", path + ":34: socket.listen", path + ":40: socket.listen"},
		Check:            Check{Command: []string{"app", "--check"}, Timeout: 5 * time.Second},
		Ready:            Ready{By: ByExec, Timeout: time.Minute, Path: "/", Command: []string{"curl", "-f"}, Interval: 200 * time.Millisecond, Delay: time.Second},
		Probe:            Probe{Path: "/health?deep=1", Host: "app.example.org", Socket: "admin", Status: 204, Count: 3, Timeout: time.Second, Interval: 500 * time.Millisecond},
		Handoff:          Handoff{Canary: []CanaryStep{{0.025, 30 * time.Second}, {0.5, time.Minute}}, Soak: 2 * time.Minute, KeepAlive: KeepAliveClose, CarryWait: 250 * time.Millisecond, CarryIdle: 5 * time.Second, CarryRelays: 256, Probation: time.Minute},
		Settle:           Settle{Max: 500 * time.Millisecond},
		Drain:            Drain{Linger: 20 * time.Second, Signal: unix.SIGQUIT, Timeout: 0, Generations: 2},
		Watchdog:         10 * time.Second,
		Releases:         Releases{Directory: etc + "/../releases", Current: etc + "/../current"},
		Hooks:            Hooks{Timeout: 30 * time.Second},
		Cgroup:           CgroupOff,
		RuntimeDirectory: "/run/app",
		StateDirectory:   etc + "/state",
		FailFast:         true,
		UpgradeTimeout:   time.Minute,
		Pass:             []child.Pass{child.PassListenFDs},
		Log:              Log{logging.JSON},
		Metrics:          Metrics{":9600"},
	}
	got := load(t, source(t, path))
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if release, err := got.Release(); release != "42" || err != nil {
		t.Errorf("release %q, %v, want 42", release, err)
	}
}

func TestLoadDefaults(t *testing.T) {
	t.Parallel()
	want := &Config{
		Name:             "app",
		Command:          []string{"bin/app", "-x", "--name", "y"},
		Directory:        "/work",
		Check:            Check{Timeout: 30 * time.Second},
		Ready:            Ready{By: ByNotify, Timeout: 90 * time.Second, Path: "/", Interval: time.Second, Delay: time.Second},
		Probe:            Probe{Count: 1, Timeout: 5 * time.Second, Interval: time.Second},
		Handoff:          Handoff{KeepAlive: KeepAliveClose, CarryWait: 250 * time.Millisecond, CarryIdle: 5 * time.Second, CarryRelays: 256, Probation: time.Minute},
		Settle:           Settle{Max: 2 * time.Second},
		Drain:            Drain{Signal: unix.SIGTERM, Timeout: 30 * time.Second, Generations: 4},
		Hooks:            Hooks{Timeout: 30 * time.Second},
		Cgroup:           CgroupAuto,
		RuntimeDirectory: "/run/x",
		StateDirectory:   "/state/x",
		UpgradeTimeout:   30 * time.Second,
		Pass:             []child.Pass{child.PassListenFDs},
		Log:              Log{logging.Auto},
	}
	if got := load(t, source(t, "", "--", "bin/app", "-x", "--name", "y")); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Each flag has to do the same as its key in the file.
func TestFlagsEqualFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "env", "")
	write(t, dir, "releases/1/x", "")
	if err := os.Symlink("releases/1", filepath.Join(dir, "current")); err != nil {
		t.Fatal(err)
	}
	path := write(t, dir, "app.toml", `
name = "n"
command = ["c", "a b"]
directory = "d"
environment = { A = "1", B = "2=3" }
environment-file = ["env", "-no"]
user = "root"
group = "root"
umask = "77"
limits = { nofile = "1:2", core = 3 }
cgroup = "off"
watchdog = "1s"
fail-fast = true
runtime-directory = "r"
state-directory = "s"
mode = "steered"
socket = [ { listen = ":1", name = "one", backlog = 5 }, { listen = "udp://:1" } ]
check = { command = ["x", "a b", "", "'"], timeout = "2s" }
ready = { by = "fd", fd = 5, timeout = "3s" }
probe = { path = "/p", host = "h:1", status = 200, count = 2, timeout = "5s", interval = "6s", socket = "one" }
handoff = { canary = "5%", canary-time = "7s", soak = "8s", probation = "9s", auto-rollback = true }
hooks = { before-cutover = ["a", "b c"], after-live = ["d"], after-gone = ["e"], timeout = "8s" }
settle = { max = "0s" }
upgrade = { timeout = "7s" }
log = { format = "text" }
metrics = { listen = "localhost:9600" }
drain = { linger = "9s", signal = "SIGUSR1", timeout = "4s", generations = 1 }
releases = { directory = "releases", current = "current", keep = 3 }
`)
	fromFile := source(t, path)
	fromFlags := source(t, "",
		"--name=n", "--directory=d", "--environment=A=1", "--environment=B=2=3", "--environment-file=env", "--environment-file=-no",
		"--user=root", "--group=root", "--umask=77", "--limits=nofile=1:2", "--limits", "core=3", "--cgroup=off", "--watchdog=1s", "--fail-fast",
		"--runtime-directory=r", "--state-directory=s", "--mode=steered", "--listen=one=:1?backlog=5", "--listen=udp://:1",
		`--check-command=x 'a b' "" \'`, "--check-timeout=2s", "--ready-by=fd", "--ready-fd=5", "--ready-timeout=3s",
		"--probe-path=/p", "--probe-host=h:1", "--probe-status=200", "--probe-count=2", "--probe-timeout=5s", "--probe-interval=6s", "--probe-socket=one",
		"--handoff-canary=5%", "--handoff-canary-time=7s", "--handoff-soak=8s", "--handoff-probation=9s", "--handoff-auto-rollback",
		"--hooks-before-cutover=a 'b c'", "--hooks-after-live=d", "--hooks-after-gone=e", "--hooks-timeout=8s",
		"--settle-max=0s", "--upgrade-timeout=7s", "--log-format=text", "--metrics-listen=localhost:9600", "--drain-linger=9s", "--drain-signal=SIGUSR1", "--drain-timeout=4s", "--drain-generations=1", "--releases-directory=releases", "--releases-current=current", "--releases-keep=3",
		"--", "c", "a b")
	fromFlags.WorkingDirectory = dir
	want, got := load(t, fromFile), load(t, fromFlags)
	if !reflect.DeepEqual(got.Places, []string{"--listen", "--listen"}) {
		t.Errorf("sockets are at %q", got.Places)
	}
	got.Places = want.Places
	if !reflect.DeepEqual(got, want) {
		t.Errorf("flags %+v\nfile  %+v", got, want)
	}
	if want.Ready.FD != 5 || len(want.Sockets) != 2 {
		t.Errorf("got %+v", want)
	}
}

// What an option of a socket is in the file does not depend on the notation of
// flags.
func TestSocketOptionsAreLiteral(t *testing.T) {
	t.Parallel()
	path := write(t, t.TempDir(), "app.toml", `
command = ["app"]
[[socket]]
listen = "unix:///run/x"
name = "a&b?c%41=d"
owner = "root"
`)
	want := fdpass.Spec{Name: "a&b?c%41=d", Network: fdpass.Unix, Address: "/run/x", Owner: "root"}
	if got := load(t, source(t, path)).Sockets; len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A reload reads the file again, and the flags still win.
func TestLoadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := write(t, dir, "app.toml", `
command = ["old"]
environment = { A = "file", B = "file" }
environment-file = ["-one"]
user = "root"
[[socket]]
listen = ":1"
[drain]
timeout = "1s"
generations = 2
`)
	s := source(t, path, "--environment=A=flag", "--environment-file=-two", "--listen=:2", "--drain-timeout=9s")
	check := func(command string, generations int) {
		t.Helper()
		c := load(t, s)
		if c.Command[0] != command || c.Drain.Generations != generations { // of the file
			t.Errorf("command %v, generations %d", c.Command, c.Drain.Generations)
		}
		if c.Drain.Timeout != 9*time.Second || len(c.Sockets) != 1 || c.Sockets[0].Address != ":2" { // of the flags
			t.Errorf("timeout %v, sockets %v", c.Drain.Timeout, c.Sockets)
		}
		if want := map[string]string{"A": "flag", "B": "file"}; !reflect.DeepEqual(c.Environment, want) {
			t.Errorf("environment %v, want %v", c.Environment, want)
		}
		if want := []string{"-/work/two"}; !reflect.DeepEqual(c.EnvironmentFiles, want) {
			t.Errorf("environment files %v, want %v", c.EnvironmentFiles, want)
		}
	}
	check("old", 2)
	text, _ := os.ReadFile(path)
	write(t, dir, "app.toml", strings.NewReplacer(`"old"`, `"new"`, "generations = 2", "").Replace(string(text)))
	check("new", 4)
	s.Args = []string{"flag"}
	check("flag", 4)

	write(t, dir, "app.toml", "command = [")
	if _, err := s.Load(); err == nil {
		t.Error("a broken file was accepted")
	}
}

func TestLoadUnreadableFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "none.toml"): "cannot be read: no such file or directory",
		dir:                             "cannot be read: is a directory",
	} {
		_, err := source(t, path, "--", "app").Load()
		var problems Problems
		if !errors.As(err, &problems) || len(problems) != 1 || problems[0].File != path || problems[0].Text != want {
			t.Errorf("%v, want %s: %s", err, path, want)
		}
	}
}

func TestRelativeConfigPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "etc/app.toml", `command = ["app"]`+"\n"+`directory = "sub"`)
	s := source(t, "etc/app.toml")
	s.WorkingDirectory = dir
	if got, want := load(t, s).Directory, filepath.Join(dir, "etc/sub"); got != want {
		t.Errorf("directory %s, want %s", got, want)
	}
	s.Path = "etc/none.toml"
	if _, err := s.Load(); err == nil || err.Error() != "etc/none.toml: cannot be read: no such file or directory" {
		t.Errorf("got %v", err)
	}
}

func TestDirectories(t *testing.T) {
	t.Parallel()
	type want struct{ runtime, state string }
	for name, tt := range map[string]struct {
		root bool
		env  []string
		want want
	}{
		"root":            {true, nil, want{"/run/zddsupervisor/app", "/var/lib/zddsupervisor/app"}},
		"root with XDG":   {true, []string{"XDG_RUNTIME_DIR=/x", "XDG_STATE_HOME=/y"}, want{"/run/zddsupervisor/app", "/var/lib/zddsupervisor/app"}},
		"systemd":         {true, []string{"RUNTIME_DIRECTORY=/run/a", "STATE_DIRECTORY=/lib/a"}, want{"/run/a", "/lib/a"}},
		"several":         {true, []string{"RUNTIME_DIRECTORY=/run/a:/run/b", "STATE_DIRECTORY=/lib/a:/lib/b"}, want{"/run/a", "/lib/a"}},
		"user":            {false, []string{"XDG_RUNTIME_DIR=/x", "XDG_STATE_HOME=/y"}, want{"/x/zddsupervisor/app", "/y/zddsupervisor/app"}},
		"user with HOME":  {false, []string{"XDG_RUNTIME_DIR=/x", "HOME=/h"}, want{"/x/zddsupervisor/app", "/h/.local/state/zddsupervisor/app"}},
		"relative XDG":    {false, []string{"XDG_RUNTIME_DIR=x", "XDG_STATE_HOME=y", "HOME=/h"}, want{"", "/h/.local/state/zddsupervisor/app"}},
		"user of nothing": {false, nil, want{}},
		"user, systemd":   {false, []string{"RUNTIME_DIRECTORY=/run/a", "STATE_DIRECTORY=/lib/a"}, want{"/run/a", "/lib/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got want
			var errs [2]error
			got.runtime, errs[0] = directories()[0].choose("app", tt.root, env(tt.env...))
			got.state, errs[1] = directories()[1].choose("app", tt.root, env(tt.env...))
			if got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if (errs[0] != nil) != (got.runtime == "") || (errs[1] != nil) != (got.state == "") {
				t.Errorf("errors %v", errs)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "releases/1/app", "")
	write(t, dir, "releases/2/app", "")
	write(t, dir, "releases/file", "")
	write(t, dir, "elsewhere/1/app", "")
	if err := os.Symlink("releases", filepath.Join(dir, "other-way")); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "current")
	c := Config{Releases: Releases{Directory: filepath.Join(dir, "releases"), Current: link}}
	for target, want := range map[string]string{
		"releases/1":                     "1",
		"releases/2/":                    "2",
		filepath.Join(dir, "releases/1"): "1",
		"other-way/1":                    "1",
		"./releases/../releases/2":       "2",
		"releases/3":                     "",
		"releases/file":                  "",
		"releases":                       "",
		"releases/1/app":                 "",
		"elsewhere/1":                    "",
		"nowhere/1":                      "",
	} {
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		got, err := c.Release()
		if got != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, ErrRelease) {
			t.Errorf("current -> %s: %q, %v, want %q", target, got, err, want)
		}
	}
	for _, current := range []string{filepath.Join(dir, "none"), filepath.Join(dir, "releases")} {
		c.Releases.Current = current
		if got, err := c.Release(); got != "" || !errors.Is(err, ErrRelease) {
			t.Errorf("current is %s: %q, %v, want ErrRelease", current, got, err)
		}
	}
	c.Releases = Releases{}
	if got, err := c.Release(); got != "" || err != nil {
		t.Errorf("without releases: %q, %v", got, err)
	}
}
