// Package services are services as Debian packages them, unmodified, with how each is told about its socket, as its own documentation says.
package services

import "github.com/zddsupervisor/zddsupervisor/internal/load"

// Address is where each of them listens.
const Address = "127.0.0.1:8080"

// Executed is the file to which those that have files of their own append the target of each request that they execute, with a blank after it.
// HAProxy does not.
const Executed = "/run/executed"

// A Service is one of them.
type Service struct {
	Name   string
	Files  map[string]string
	Config string // without the name and the socket, which is "http"
	Load   load.Config
	// Finishes tells that it answers every connection that it has accepted. Of the others, some requests are lost while both versions
	// accept from one queue.
	Finishes bool
	// Keeps tells that it keeps connections open between requests, and closes them in a way in which they can be carried over (HAProxy ends
	// them with shutdown(2)).
	Keeps bool
}

const (
	wsgiApp = `import os, zlib

executed = open("/run/executed", "ab", buffering=0)

def app(environ, start_response):
    query, body = environ["QUERY_STRING"], environ["wsgi.input"].read()
    executed.write(b"/?%s \n" % query.encode())
    start_response("200 OK", [
        ("Content-Type", "text/plain"),
        ("X-Version", str(os.getppid())), # the arbiter's pid tells the versions apart
        ("X-Id", query.removeprefix("id=")),
        ("X-Body", "%d-%08x" % (len(body), zlib.crc32(body))),
    ])
    return [b"hello\n"]
`
	asgiApp = `import os, zlib

executed = open("/run/executed", "ab", buffering=0)

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        # Start-up is over when this is sent; then the server listens.
        await send({"type": "lifespan.startup.complete"})
        open(os.environ["STARTED"], "w").close()
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    size, crc, more = 0, 0, True
    while more:
        message = await receive()
        body, more = message.get("body", b""), message.get("more_body", False)
        size, crc = size + len(body), zlib.crc32(body, crc)
    query = scope["query_string"]
    executed.write(b"/?%s \n" % query)
    await send({"type": "http.response.start", "status": 200, "headers": [
        (b"x-version", str(os.getpid()).encode()),
        (b"x-id", query.removeprefix(b"id=")),
        (b"x-body", b"%d-%08x" % (size, crc)),
    ]})
    await send({"type": "http.response.body", "body": b"hello\n"})
`
	nodeApp = `const fs = require('node:fs');
const http = require('node:http');
const zlib = require('node:zlib');
const executed = fs.openSync('/run/executed', 'a');
const server = http.createServer((req, res) => {
  let size = 0, crc = 0;
  req.on('data', (piece) => { size += piece.length; crc = zlib.crc32(piece, crc); });
  req.on('end', () => {
    fs.writeSync(executed, req.url + ' \n');
    res.setHeader('X-Version', process.pid);
    res.setHeader('X-Id', req.url.replace(/.*id=/, ''));
    res.setHeader('X-Body', size + '-' + crc.toString(16).padStart(8, '0'));
    res.end('hello\n');
  });
});
server.listen({ fd: 3 }, () => fs.writeSync(Number(process.argv[2]), '\n'));
process.on('SIGTERM', () => server.close());
`
	pumaApp = `require "zlib"
executed = File.open("/run/executed", "a")
executed.sync = true
run lambda { |env|
  query, body = env["QUERY_STRING"], env["rack.input"].read
  executed.write("/?#{query} \n")
  [200, {
    "content-type" => "text/plain",
    "x-version" => Process.pid.to_s,
    "x-id" => query.delete_prefix("id="),
    "x-body" => format("%d-%08x", body.bytesize, Zlib.crc32(body)),
  }, ["hello\n"]]
}
`
	nginxConfig = `daemon off;
error_log stderr warn;
events {}
http {
    log_format targets '$request_uri ';
    access_log /run/executed targets;
    server {
        listen 127.0.0.1:8080;
        location / {
            add_header X-Version $pid;
            add_header X-Id $arg_id;
            return 200 "hello\n";
        }
    }
}
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
    http-request return status 200 content-type text/plain string "hello" hdr X-Version "%pid" hdr X-Id "%[url_param(id)]"
`
)

// All are all of them.
func All() []Service {
	return []Service{
		{
			// https://docs.gunicorn.org/en/stable/deploy.html#systemd: sockets by LISTEN_FDS, Type=notify.
			Name:  "gunicorn",
			Files: map[string]string{"/srv/app/hello.py": wsgiApp},
			Config: `command = ["/usr/bin/gunicorn", "--workers=2", "hello:app"]
directory = "/srv/app"

[check]
command = ["/usr/bin/gunicorn", "--check-config", "hello:app"]
`,
			Load:     load.Config{Rate: 200},
			Finishes: true,
		},
		{
			// The same with threads, which keep connections open between requests.
			Name:  "gunicorn with threads",
			Files: map[string]string{"/srv/app/hello.py": wsgiApp},
			Config: `command = ["/usr/bin/gunicorn", "--worker-class=gthread", "--workers=2", "--threads=8", "hello:app"]
directory = "/srv/app"
`,
			Load:  load.Config{Rate: 200},
			Keeps: true,
		},
		{
			// https://puma.io/puma/file.systemd.html: sockets by LISTEN_FDS where -b has the same address, READY=1 once it is booted.
			Name:  "puma",
			Files: map[string]string{"/srv/app/config.ru": pumaApp},
			Config: `command = ["/usr/bin/puma", "--bind=tcp://127.0.0.1:8080", "--environment=production", "/srv/app/config.ru"]
directory = "/srv/app"
`,
			Load:  load.Config{Rate: 100},
			Keeps: true,
		},
		{
			// https://nginx.org/en/docs/control.html, Upgrading Executable on the Fly: the NGINX variable has the numbers of the sockets that are
			// inherited. SIGQUIT finishes what was accepted.
			Name:  "nginx",
			Files: map[string]string{"/etc/nginx/hello.conf": nginxConfig},
			Config: `command = ["/usr/sbin/nginx", "-c", "/etc/nginx/hello.conf", "-g", "pid /run/nginx-{generation}.pid;"]
environment = { NGINX = "{fd:http};" }

[ready]
by = "accept"

[drain]
signal = "SIGQUIT"
`,
			Load:  load.Config{Rate: 200},
			Keeps: true,
		},
		{
			// https://www.uvicorn.org/deployment/: --fd takes the socket from a process manager. It does not say when it is ready; the
			// application here leaves a file.
			Name:  "uvicorn",
			Files: map[string]string{"/srv/app/hello.py": asgiApp},
			Config: `command = ["/usr/bin/uvicorn", "--fd={fd:http}", "--no-access-log", "hello:app"]
directory = "/srv/app"
environment = { STARTED = "/run/started-{generation}" }

[ready]
by = "exec"
command = ["/usr/bin/test", "-e", "/run/started-{generation}"]
`,
			Load:  load.Config{Rate: 200},
			Keeps: true,
		},
		{
			// The configuration manual, "bind": fd@N is an inherited socket. The management guide: -Ws is the master-worker mode that
			// notifies systemd, SIGUSR1 stops softly: it finishes what it has accepted.
			Name:  "haproxy",
			Files: map[string]string{"/etc/haproxy/hello.cfg": haproxyConfig},
			Config: `command = ["/usr/sbin/haproxy", "-Ws", "-f", "/etc/haproxy/hello.cfg"]

[drain]
signal = "SIGUSR1"
`,
			Load:     load.Config{Rate: 200},
			Finishes: true,
		},
		{
			// --web.systemd-socket takes the sockets of LISTEN_FDS. It neither says when it is ready nor stops in order: SIGTERM ends it.
			Name: "prometheus-node-exporter",
			Config: `command = ["/usr/bin/prometheus-node-exporter", "--web.systemd-socket", "--collector.disable-defaults", "--collector.loadavg"]

[ready]
by = "delay"
delay = "500ms"
`,
			Load: load.Config{Rate: 100, Path: "/metrics", VersionBody: `(?m)^process_start_time_seconds (\S+)$`},
		},
		{
			// https://nodejs.org/api/net.html#serverlistenoptions-callback: fd is a socket to listen on. It says that it is ready by a
			// line on a descriptor.
			Name:  "node",
			Files: map[string]string{"/srv/app/hello.js": nodeApp},
			Config: `command = ["/usr/bin/node", "/srv/app/hello.js", "{fd:ready}"]

[ready]
by = "fd"
`,
			Load:  load.Config{Rate: 100},
			Keeps: true,
		},
	}
}
