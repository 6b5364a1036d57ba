package services

import (
	"strings"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

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
	// One answers "stats" with a line for the process.
	memcached = `command = ["/usr/bin/memcached", "-u", "root", "-l", "127.0.0.1", "-p", "8080", "-U", "0"]

[ready]
by = "accept"

[drain]
signal = "SIGUSR1" # stops in an orderly way; SIGTERM does not
`
	// The JVM's own web server, with a directory for each version.
	java = `command = ["/usr/bin/java", "-m", "jdk.httpserver", "-b", "127.0.0.1", "-p", "8080", "-d", "/run/www-{generation}", "-o", "none"]

[check]
command = ["/bin/sh", "-c", "mkdir -p /run/www-{generation} && echo release-{generation} > /run/www-{generation}/index.html"]
` + byHTTP
	// A program in Rust, with a book for each version.
	mdbook = `command = ["/usr/bin/mdbook", "serve", "--hostname", "127.0.0.1", "--port", "8080", "/run/book-{generation}"]

[check]
command = ["/bin/sh", "-c", "mkdir -p /run/book-{generation}/src && cd /run/book-{generation} && printf '[book]\\ntitle = \"release-{generation}\"\\n' > book.toml && echo '# Summary' > src/SUMMARY.md && echo '[One](one.md)' >> src/SUMMARY.md && echo '# One' > src/one.md"]
` + byHTTP
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
			Config: "command = [\"/usr/sbin/nginx\", \"-c\", \"/etc/nginx/hello.conf\", \"-g\", \"daemon off; pid /run/nginx-{generation}.pid;\"]\n" + byHTTP + "[drain]\nsignal = \"SIGQUIT\"\n", Load: light},
		{Name: "haproxy", Files: map[string]string{"/etc/haproxy/hello.cfg": haproxyBinding},
			Config: "command = [\"/usr/sbin/haproxy\", \"-W\", \"-f\", \"/etc/haproxy/hello.cfg\"]\n" + byHTTP + "[drain]\nsignal = \"SIGUSR1\"\n", Load: light},
		{Name: "gunicorn", Files: map[string]string{"/srv/app/hello.py": wsgiApp},
			Config: "command = [\"/usr/bin/gunicorn\", \"--workers=2\", \"--bind=127.0.0.1:8080\", \"hello:app\"]\ndirectory = \"/srv/app\"\n" + byHTTP, Load: light},
		{Name: "puma", Files: map[string]string{"/srv/app/config.ru": pumaApp},
			Config: "command = [\"/usr/bin/puma\", \"--bind=tcp://127.0.0.1:8080\", \"--environment=production\", \"/srv/app/config.ru\"]\ndirectory = \"/srv/app\"\n" + byHTTP, Load: light},
	}
}

// BindingToo are more of them, which only Debian 14 has in test machines: not HTTP, in Java, and in Rust.
func BindingToo() []Service {
	return []Service{
		{Name: "memcached", Config: memcached, Load: load.Config{Workers: 2, Send: "stats\r\n", Greeting: `^STAT pid (\d+)`}},
		{Name: "java", Config: java, Load: load.Config{Rate: 200, VersionBody: `(release-\d+)`}},
		{Name: "mdbook", Config: mdbook, Load: load.Config{Rate: 200, VersionBody: `(release-\d+)`}},
	}
}

const nodeReusePort = `const http = require('node:http');
const server = http.createServer((req, res) => {
  res.setHeader('X-Version', process.pid);
  res.end('hello\n');
});
server.listen({ port: 8080, host: '127.0.0.1', reusePort: true });
process.on('SIGTERM', () => server.close());
`

// ReusePort are services that listen with SO_REUSEPORT: nginx has a socket for each of its workers.
func ReusePort() []Service {
	light := load.Config{Workers: 2}
	return []Service{
		{Name: "nginx", Files: map[string]string{"/etc/nginx/reuseport.conf": "worker_processes 2;\n" + strings.Replace(nginxConfig, Address, Address+" reuseport", 1)},
			Config: "command = [\"/usr/sbin/nginx\", \"-c\", \"/etc/nginx/reuseport.conf\", \"-g\", \"daemon off; pid /run/nginx-{generation}.pid;\"]\n" + byHTTP + "[drain]\nsignal = \"SIGQUIT\"\n", Load: light},
		{Name: "node", Files: map[string]string{"/srv/app/reuseport.js": nodeReusePort},
			Config: "command = [\"/usr/bin/node\", \"/srv/app/reuseport.js\"]\n" + byHTTP, Load: light},
	}
}
