package integration_test

import (
	"testing"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/services"
)

// proxies keep connections to the service, and never send a request to it twice. Each has a port of its own.
var proxies = []struct{ name, address, path, config, start string }{
	{
		name: "nginx", address: "127.0.0.1:8081", path: "/etc/nginx/front.conf", start: "/usr/sbin/nginx -c /etc/nginx/front.conf",
		config: `daemon off;
pid /run/front.pid;
error_log stderr warn;
events {}
http {
    access_log off;
    client_max_body_size 0;
    upstream svc {
        server ` + services.Address + ` max_fails=0;
        keepalive 64;
    }
    server {
        listen 127.0.0.1:8081;
        keepalive_requests 1000000;
        location / {
            proxy_pass http://svc;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_next_upstream off;
        }
    }
}
`,
	},
	{
		name: "haproxy", address: "127.0.0.1:8082", path: "/etc/haproxy/front.cfg", start: "/usr/sbin/haproxy -db -f /etc/haproxy/front.cfg",
		config: `defaults
    mode http
    retries 0
    http-reuse always
    timeout client 60s
    timeout connect 5s
    timeout server 60s
frontend web
    bind 127.0.0.1:8082
    default_backend svc
backend svc
    server svc ` + services.Address + `
`,
	},
}

// TestCarriedBehindProxies hands a service off whose clients are proxies that do not try again; nothing of it shows at their own clients.
func TestCarriedBehindProxies(t *testing.T) {
	t.Parallel()
	m := boot(t, rootfs.Trixie())
	service := services.Service{Config: "command = [\"" + servicePath + "\", \"-serve=http\", \"-log=" + services.Executed + "\"]\n"}
	s := supervise(t, m, carrying(service, true))
	s.must("systemctl", "start", unitName)
	for _, p := range proxies {
		m.write(p.path, p.config)
		m.unit(p.name+"-front.service", "[Service]\nExecStart="+p.start+"\n")
		s.must("systemctl", "start", p.name+"-front.service")
		s.eventually(p.name+" listens", func() bool {
			return s.run("curl", "--silent", "--fail", "--output", "/dev/null", "http://"+p.address+"/").Status == 0
		})
		load := carriedLoad(p.address)
		s.carriedCleanly("behind "+p.name, carrying(service, true), load)
		s.keptThrough("behind "+p.name+", not carried over", carrying(service, false), load, max(1, *carriedHandoffs/3))
	}
}
