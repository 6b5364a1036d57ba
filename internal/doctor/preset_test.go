package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
)

func TestPresetFor(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{
		"/usr/sbin/nginx": "nginx", "php-fpm8.4": "php-fpm", "/usr/bin/uwsgi-core": "uwsgi", "plackup": "server-starter", "node": "node",
		"/usr/bin/prometheus-node-exporter": "prometheus-exporter", "nodejs": "", "nginx-debug": "", "/srv/app/app": "", "nodemon": "",
	} {
		if got := presetFor(program); got != want {
			t.Errorf("%s: %q, want %q", program, got, want)
		}
	}
}

func TestPreset(t *testing.T) {
	t.Parallel()
	const socket = "[[socket]]\nlisten = \"127.0.0.1:8080\"\n"
	for _, tc := range []struct {
		text     string
		severity Severity
		what     string
	}{
		{"command = [\"nginx\"]\ndrain.signal = \"QUIT\"\n" + socket, Fails, `nginx is not told of its sockets: pass has no "nginx"`},
		{"command = [\"nginx\"]\npass = [\"nginx\"]\n" + socket, Warns, "drain.signal is SIGTERM, but nginx finishes what it has begun on SIGQUIT"},
		{"command = [\"nginx\"]\ndrain.signal = \"QUIT\"\nenvironment = { NGINX = \"{fd:tcp-127.0.0.1:8080};\" }\n" + socket, Fine, ""},
		{"command = [\"nginx\"]\npreset = \"nginx\"\n" + socket, Fine, ""},
		{"command = [\"haproxy\"]\n" + socket, Warns, "haproxy"},
		{"command = [\"daphne\"]\n" + socket, Warns, "drain.linger is not set, but the preset for daphne lets"},
		{"command = [\"daphne\"]\ndrain.linger = \"1s\"\n" + socket, Fine, ""},
		{"command = [\"prometheus-node-exporter\"]\npreset = \"prometheus-exporter\"\n" + socket, Fine, ""},
		{"command = [\"gunicorn\"]\nhandoff.keepalive = \"carry\"\n" + socket + "protocol = \"http/1\"\n", Warns, "gunicorn takes a connection for idle"},
		{"command = [\"podman\", \"run\", \"app\"]\ncgroup = \"off\"\n" + socket, Fails, "podman runs with"},
		{"command = [\"app\"]\n" + socket, Fine, ""},
	} {
		file := filepath.Join(t.TempDir(), "svc.toml")
		text := strings.ReplaceAll(tc.text, "tcp-127.0.0.1:8080", "http")
		if strings.Contains(text, "{fd:http}") {
			text = strings.ReplaceAll(text, socket, socket+"name = \"http\"\n")
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		cfg, err := (&config.Source{Path: file, Getenv: func(string) string { return "/run/svc" }}).Load()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var r report
		preset(&r, cfg)
		if tc.severity == Fine {
			if len(r.findings) > 0 {
				t.Errorf("%s: %+v", text, r.findings)
			}
			continue
		}
		if f := one(t, r); f.Severity != tc.severity || !strings.Contains(f.What, tc.what) || !strings.Contains(f.Fix, "configuration") {
			t.Errorf("%s: %+v", text, f)
		}
	}
}
