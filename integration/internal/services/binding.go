package services

import "github.com/zddsupervisor/zddsupervisor/internal/load"

const (
	pythonServer = `import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("X-Version", str(os.getpid()))
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_message(self, *args):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
`
	nodeServer = `const http = require('node:http');
const server = http.createServer((req, res) => {
  res.setHeader('X-Version', process.pid);
  res.end('hello\n');
});
server.listen(8080, '127.0.0.1');
process.on('SIGTERM', () => server.close());
`
	haproxyBinding = `global
    log stderr format raw local0 warning
defaults
    mode http
    timeout client 10s
    timeout http-request 10s
    timeout connect 1s
    timeout server 10s
frontend web
    bind 127.0.0.1:8080
    http-request return status 200 content-type text/plain string "hello" hdr X-Version "%pid"
`
	byHTTP = `
[ready]
by = "http"
path = "/"
`
)

// Binding are services that are told nothing of passed sockets: each binds Address by itself. They are for sockets with
// pass = "adopt".
func Binding() []Service {
	light := load.Config{Workers: 2}
	return []Service{
		{Name: "python3 http.server", Files: map[string]string{"/srv/app/server.py": pythonServer},
			Config: "command = [\"/usr/bin/python3\", \"/srv/app/server.py\"]\n" + byHTTP, Load: light},
		{Name: "node", Files: map[string]string{"/srv/app/server.js": nodeServer},
			Config: "command = [\"/usr/bin/node\", \"/srv/app/server.js\"]\n" + byHTTP, Load: light},
		{Name: "nginx", Files: map[string]string{"/etc/nginx/hello.conf": nginxConfig},
			Config: "command = [\"/usr/sbin/nginx\", \"-c\", \"/etc/nginx/hello.conf\", \"-g\", \"pid /run/nginx-{generation}.pid;\"]\n" + byHTTP + "[drain]\nsignal = \"SIGQUIT\"\n", Load: light},
		{Name: "haproxy", Files: map[string]string{"/etc/haproxy/hello.cfg": haproxyBinding},
			Config: "command = [\"/usr/sbin/haproxy\", \"-W\", \"-f\", \"/etc/haproxy/hello.cfg\"]\n" + byHTTP + "[drain]\nsignal = \"SIGUSR1\"\n", Load: light},
		{Name: "gunicorn", Files: map[string]string{"/srv/app/hello.py": wsgiApp},
			Config: "command = [\"/usr/bin/gunicorn\", \"--workers=2\", \"--bind=127.0.0.1:8080\", \"hello:app\"]\ndirectory = \"/srv/app\"\n" + byHTTP, Load: light},
		{Name: "puma", Files: map[string]string{"/srv/app/config.ru": pumaApp},
			Config: "command = [\"/usr/bin/puma\", \"--bind=tcp://127.0.0.1:8080\", \"--environment=production\", \"/srv/app/config.ru\"]\ndirectory = \"/srv/app\"\n" + byHTTP, Load: light},
	}
}
