package integration_test

import (
	"fmt"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// realService is a service as Debian packages it, and how it is told about its socket, as its own documentation says.
type realService struct {
	name   string
	files  map[string]string
	config string // without the name and the socket, which is "http"
	load   load.Config
	// finishes tells that the service answers every connection that it has accepted. Of the others, some requests are lost while
	// both versions accept from one queue; how many is logged.
	finishes bool
}

const (
	wsgiApp = `import os

def app(environ, start_response):
    # The arbiter's pid tells the versions apart.
    start_response("200 OK", [("Content-Type", "text/plain"), ("X-Version", str(os.getppid()))])
    return [b"hello\n"]
`
	asgiApp = `import os

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        # Start-up is over when this is sent; then the server listens.
        await send({"type": "lifespan.startup.complete"})
        open(os.environ["STARTED"], "w").close()
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-version", str(os.getpid()).encode())]})
    await send({"type": "http.response.body", "body": b"hello\n"})
`
	nodeApp = `const fs = require('node:fs');
const http = require('node:http');
const server = http.createServer((req, res) => {
  res.setHeader('X-Version', process.pid);
  res.end('hello\n');
});
server.listen({ fd: 3 }, () => fs.writeSync(Number(process.argv[2]), '\n'));
process.on('SIGTERM', () => server.close());
`
	haproxyConfig = `global
    log stderr format raw local0 warning
defaults
    mode http
    timeout client 10s
    timeout http-request 10s
    timeout connect 1s
    timeout server 10s
frontend web
    bind fd@3
    http-request return status 200 content-type text/plain string "hello" hdr X-Version "%pid"
`
)

func realServices() []realService {
	return []realService{
		{
			// https://docs.gunicorn.org/en/stable/deploy.html#systemd: sockets by LISTEN_FDS, Type=notify.
			name:  "gunicorn",
			files: map[string]string{"/srv/app/hello.py": wsgiApp},
			config: `command = ["/usr/bin/gunicorn", "--workers=2", "hello:app"]
directory = "/srv/app"

[check]
command = ["/usr/bin/gunicorn", "--check-config", "hello:app"]
`,
			load:     load.Config{Rate: 200},
			finishes: true,
		},
		{
			// https://www.uvicorn.org/deployment/: --fd takes the socket from a process manager. It does not say when it is ready; the
			// application here leaves a file.
			name:  "uvicorn",
			files: map[string]string{"/srv/app/hello.py": asgiApp},
			config: `command = ["/usr/bin/uvicorn", "--fd={fd:http}", "--no-access-log", "hello:app"]
directory = "/srv/app"
environment = { STARTED = "/run/started-{generation}" }

[ready]
by = "exec"
command = ["/usr/bin/test", "-e", "/run/started-{generation}"]
`,
			load: load.Config{Rate: 200},
		},
		{
			// The configuration manual, "bind": fd@N is an inherited socket. The management guide: -Ws is the master-worker mode that
			// notifies systemd, SIGUSR1 stops softly: it finishes what it has accepted.
			name:  "haproxy",
			files: map[string]string{"/etc/haproxy/hello.cfg": haproxyConfig},
			config: `command = ["/usr/sbin/haproxy", "-Ws", "-f", "/etc/haproxy/hello.cfg"]

[drain]
signal = "SIGUSR1"
`,
			load:     load.Config{Rate: 200},
			finishes: true,
		},
		{
			// --web.systemd-socket takes the sockets of LISTEN_FDS. It neither says when it is ready nor stops in order: SIGTERM ends it.
			name: "prometheus-node-exporter",
			config: `command = ["/usr/bin/prometheus-node-exporter", "--web.systemd-socket", "--collector.disable-defaults", "--collector.loadavg"]

[ready]
by = "delay"
delay = "500ms"
`,
			load: load.Config{Rate: 100, Path: "/metrics", VersionBody: `(?m)^process_start_time_seconds (\S+)$`},
		},
		{
			// https://nodejs.org/api/net.html#serverlistenoptions-callback: fd is a socket to listen on. It says that it is ready by a
			// line on a descriptor.
			name:  "node",
			files: map[string]string{"/srv/app/hello.js": nodeApp},
			config: `command = ["/usr/bin/node", "/srv/app/hello.js", "{fd:ready}"]

[ready]
by = "fd"
`,
			load: load.Config{Rate: 100},
		},
	}
}

// TestRealServices hands each service off 20 times under load of new connections, by "systemctl reload". None is refused and none is reset
// before it is accepted; a service that finishes what it accepted loses nothing at all.
func TestRealServices(t *testing.T) {
	t.Parallel()
	for _, service := range realServices() {
		t.Run(service.name, func(t *testing.T) {
			t.Parallel()
			m := boot(t, rootfs.Trixie())
			for path, content := range service.files {
				m.write(path, content)
			}
			s := supervise(t, m, fmt.Sprintf("name = \"svc\"\n%s\n[[socket]]\nname = \"http\"\nlisten = \"tcp://%s\"\n", service.config, address))
			s.must("systemctl", "start", unitName)
			l := s.load(service.load)
			l.versions(1)
			const handoffs = 20
			for range handoffs {
				l.handoff()
			}
			s.eventually("the last old version is gone", func() bool { return len(s.status().Generations) == 1 })
			result := l.stop()
			judgement := result.Judge(l.handoffs)
			t.Logf("%s, %d handoffs: %s\n%s", service.name, handoffs, judgement, result)
			if judgement.Verdict == load.Inconclusive || service.finishes && judgement.Verdict != load.Clean {
				t.Error(judgement)
			}
			for _, kind := range []load.Kind{load.Refused, load.ConnectReset, load.Timeout} {
				if n := result.Count(kind); n > 0 {
					t.Errorf("%s: %d", kind, n)
				}
			}
			s.expect("after all handoffs", map[string]string{"ActiveState": "active", "ReloadResult": "success", "NRestarts": "0"})
			if got := s.status().Handoffs; got != handoffs+1 {
				t.Errorf("%d handoffs, want %d and the first start", got, handoffs)
			}
		})
	}
}
