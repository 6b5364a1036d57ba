package config

import (
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// What asks a service asks it on the first socket that can be steered, or on the
// one that is named.
func TestAskedSocket(t *testing.T) {
	t.Parallel()
	const sockets = `
command = ["app"]
mode = "steered"
socket = [
  { name = "unix", listen = "@x" },
  { name = "reuse", listen = ":1", reuseport = true },
  { name = "shared", listen = ":2", mode = "shared" },
  { name = "passed", listen = "systemd:x" },
  { name = "first", listen = "tcp6://:3" },
  { name = "second", listen = "tcp4://:4" },
]
`
	for text, want := range map[string]struct{ ready, probe string }{
		"":                    {"", ""},
		"ready.by = 'http'":   {"first", ""},
		"ready.by = 'accept'": {"first", ""},
		"probe.path = '/'":    {"", "first"},
		"ready = {by = 'http', socket = 'second'}\nprobe = {path = '/', socket = 'second'}": {"second", "second"},
	} {
		c := load(t, source(t, write(t, t.TempDir(), "app.toml", sockets+text)))
		if c.Ready.Socket != want.ready || c.Probe.Socket != want.probe {
			t.Errorf("%s: ready asks %q, probe asks %q, want %+v", text, c.Ready.Socket, c.Probe.Socket, want)
		}
		// Those that cannot be steered have to stay as they are.
		for _, s := range c.Sockets {
			if shared := s.Mode == fdpass.Shared; shared != (s.Name == "shared") {
				t.Errorf("%s has the mode %q", s.Name, s.Mode)
			}
		}
	}
}

func TestReadyInterval(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"by = 'exec'\ncommand = ['x']":                     time.Second,
		"by = 'exec'\ncommand = ['x']\ninterval = '100ms'": 100 * time.Millisecond,
		"by = 'http'":                    100 * time.Millisecond,
		"by = 'accept'":                  100 * time.Millisecond,
		"by = 'accept'\ninterval = '1s'": time.Second,
	} {
		file := write(t, t.TempDir(), "app.toml", "command = ['app']\nsocket = [{listen = ':1'}]\n[ready]\n"+text)
		if got := load(t, source(t, file)).Ready.Interval; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// A flag that says how the service gets ready leaves it to the file to have keys
// of another way left over.
func TestReadyLeftOver(t *testing.T) {
	t.Parallel()
	file := write(t, t.TempDir(), "app.toml", `
command = ["app"]
socket = [{ listen = ":1" }]
ready = { by = "http", path = "/x", host = "[::1]:80", socket = "gone", interval = "5s" }
`)
	load(t, source(t, file, "--ready-by=notify"))
	if _, err := source(t, file, "--ready-by=accept").Load(); err == nil {
		t.Error("a socket that is not there was accepted")
	}
}
