package services

import "github.com/zddsupervisor/zddsupervisor/internal/load"

const (
	nginxConfig = `error_log stderr warn;
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
	lighttpdConfig = `server.modules = ("mod_setenv")
server.document-root = "/srv/app"
server.bind = "127.0.0.1"
server.port = 8080
server.systemd-socket-activation = "enable"
server.feature-flags = ("server.graceful-shutdown-timeout" => 10)
setenv.add-response-header = ("X-Version" => env.GENERATION)
`
)

// https://nginx.org/en/docs/control.html, Upgrading Executable on the Fly: the NGINX variable has the numbers of the sockets that are
// inherited. SIGQUIT finishes what was accepted.
func nginx() Service {
	return Service{
		Name:  "nginx",
		Files: map[string]string{"/etc/nginx/hello.conf": nginxConfig},
		Config: `preset = "nginx"
command = ["/usr/sbin/nginx", "-c", "/etc/nginx/hello.conf", "-g", "pid /run/nginx-{generation}.pid;"]
`,
		Load:        load.Config{Rate: 200},
		Keeps:       true,
		NoBodies:    true,
		SharedReady: "[ready]\nby = \"exec\"\ncommand = [\"/usr/bin/test\", \"-e\", \"/run/nginx-{generation}.pid\"]\n",
	}
}

// The configuration manual, "bind": fd@N is an inherited socket. The management guide: -Ws is the master-worker mode that
// notifies systemd, SIGUSR1 stops softly: it finishes what it has accepted.
func haproxy() Service {
	return Service{
		Name:  "HAProxy",
		Files: map[string]string{"/etc/haproxy/hello.cfg": haproxyConfig},
		Config: `preset = "haproxy"
command = ["/usr/sbin/haproxy", "-Ws", "-f", "/etc/haproxy/hello.cfg"]
`,
		Load:       load.Config{Rate: 200},
		Persistent: true,
	}
}

// https://redmine.lighttpd.net/projects/lighttpd/wiki/Server_systemd-socket-activationDetails: sockets by LISTEN_FDS. SIGINT stops in order.
func lighttpd() Service {
	return Service{
		Name:  "lighttpd",
		Files: map[string]string{"/etc/lighttpd/hello.conf": lighttpdConfig, "/srv/app/hello.txt": "hello\n"},
		Config: `preset = "lighttpd"
command = ["/usr/sbin/lighttpd", "-D", "-f", "/etc/lighttpd/hello.conf"]
environment = { GENERATION = "{generation}" }
`,
		Load:        load.Config{Rate: 200, Path: "/hello.txt"},
		Persistent:  true,
		SharedReady: "[ready]\nby = \"delay\"\ndelay = \"500ms\"\n",
	}
}
