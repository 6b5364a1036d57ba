package main

import (
	"fmt"
	"strings"
)

const (
	comparedPath = "/usr/local/bin/compareservice"
	// startUp is how long the compared service takes to start, by itself.
	startUp = "200ms"
)

// way is one way to deploy, as its own documentation says it is used under systemd.
type way struct {
	name  string
	files map[string]string // those of units are named by the unit alone
	// start are the units that run before the first deploy, and stop all there are.
	start, stop []string
	// deploy is a shell command; $DRILL_HANDOFF counts from 1.
	deploy string
	// config is the supervisor's configuration, which the unit is made from.
	config string
	// added is a pattern, as of pgrep -f, for the processes that are there beside the service; "" if nothing is added.
	added string
	// note is what a reader of the table must know.
	note string
}

// service is a unit of the compared service.
func comparedUnit(by, address, more string) string {
	return fmt.Sprintf("[Service]\nType=notify\nNotifyAccess=all\nExecStart=%s --by %s --address %s --start-up %s\n%s", comparedPath, by, address, startUp, more)
}

// turns is a command that deploys from the slot a to the slot b and back, by turns.
func turns(command string) string {
	return "if [ $((DRILL_HANDOFF % 2)) = 1 ]; then new=b old=a port=9002; else new=a old=b port=9001; fi; " + command
}

func ways() []way {
	slots := func(by, a, b string) map[string]string {
		return map[string]string{"slot-a.service": comparedUnit(by, a, ""), "slot-b.service": comparedUnit(by, b, "")}
	}
	all := []way{
		{
			name: "stop and start", files: map[string]string{"bare.service": comparedUnit("bind", address, "")},
			start: []string{"bare.service"}, stop: []string{"bare.service"},
			deploy: "systemctl restart bare.service",
		},
		{
			name: "systemd restart with a socket unit",
			files: map[string]string{
				"held.socket":  "[Socket]\nListenStream=" + address + "\n",
				"held.service": comparedUnit("systemd", address, ""),
			},
			start: []string{"held.socket", "held.service"}, stop: []string{"held.socket", "held.service"},
			deploy: "systemctl restart held.service",
			note:   "requests wait in the queue while nobody serves",
		},
		{
			name: "two SO_REUSEPORT slots", files: slots("reuseport", address, address),
			start: []string{"slot-a.service"}, stop: []string{"slot-a.service", "slot-b.service"},
			deploy: turns("systemctl start slot-$new && systemctl stop slot-$old"),
		},
		{
			name: "Server::Starter",
			files: map[string]string{"starter.service": fmt.Sprintf("[Service]\nExecStart=/usr/bin/start_server --port=%s -- %s --by starter --start-up %s\nExecReload=/bin/kill -HUP $MAINPID\n",
				address, comparedPath, startUp)},
			start: []string{"starter.service"}, stop: []string{"starter.service"},
			deploy: "systemctl reload starter.service", added: "start_server --port",
			note: "it waits a second (--interval) before it takes a new process for ready",
		},
		{
			name: "tableflip in the program",
			files: map[string]string{"flip.service": comparedUnit("tableflip", address,
				"ExecReload=/bin/kill -HUP $MAINPID\n")},
			start: []string{"flip.service"}, stop: []string{"flip.service"},
			deploy: "systemctl reload flip.service",
			note:   "the service has to be written for it",
		},
		{
			name: "HAProxy with two backends",
			files: merge(slots("bind", "127.0.0.1:9001", "127.0.0.1:9002"), map[string]string{
				"front.service":            "[Service]\nType=notify\nExecStart=/usr/sbin/haproxy -Ws -f /etc/haproxy/compare.cfg\n",
				"/etc/haproxy/compare.cfg": compareHAProxy,
				"/usr/local/bin/admin":     "#!/bin/bash\n# HAProxy's runtime API\nexec 3<>/dev/tcp/127.0.0.1/9999\necho \"$*\" >&3\ncat <&3\n",
			}),
			start: []string{"slot-a.service", "front.service"}, stop: []string{"front.service", "slot-a.service", "slot-b.service"},
			deploy: turns("admin() { bash /usr/local/bin/admin \"$@\"; }; systemctl start slot-$new && admin set server be/$new state ready && admin set server be/$old state drain && " +
				"while [ \"$(admin show stat | awk -F, -v s=$old '$1 == \"be\" && $2 == s { print $5 }')\" != 0 ]; do sleep 0.02; done && systemctl stop slot-$old"),
			added: "haproxy -Ws",
		},
		{
			name: "nginx with two backends",
			files: merge(slots("bind", "127.0.0.1:9001", "127.0.0.1:9002"), map[string]string{
				"front.service":             "[Service]\nType=forking\nPIDFile=/run/nginx.pid\nExecStart=/usr/sbin/nginx -c /etc/nginx/compare.conf\nExecReload=/bin/kill -HUP $MAINPID\n",
				"/etc/nginx/compare.conf":   compareNginx,
				"/etc/nginx/backend.listed": "server 127.0.0.1:9001;\n",
			}),
			start: []string{"slot-a.service", "front.service"}, stop: []string{"front.service", "slot-a.service", "slot-b.service"},
			deploy: turns("systemctl start slot-$new && echo \"server 127.0.0.1:$port;\" > /etc/nginx/backend.listed && workers=$(pgrep -P $(cat /run/nginx.pid)) && " +
				"systemctl reload front && for w in $workers; do while kill -0 $w 2>/dev/null; do sleep 0.02; done; done && systemctl stop slot-$old"),
			added: "nginx: ",
		},
	}
	for _, v := range []struct{ name, mode, handoff, protocol string }{
		{"shared", "shared", "", ""},
		{"steered", "steered", "", ""},
		{"steered, carrying kept-alive connections over", "steered", "[handoff]\nkeepalive = \"carry\"\n\n", "protocol = \"http/1\"\n"},
	} {
		name := "zdd-" + v.mode
		if v.protocol != "" {
			name = "zdd-carrying"
		}
		path := "/etc/zddsupervisor/" + name + ".toml"
		all = append(all, way{
			name: "zddsupervisor, " + v.name, config: path,
			files: map[string]string{path: fmt.Sprintf("name = %q\ncommand = [%q, \"--by\", \"systemd\", \"--start-up\", %q]\n\n%s[[socket]]\nname = \"http\"\nlisten = \"tcp://%s\"\nmode = %q\n%s",
				name, comparedPath, startUp, v.handoff, address, v.mode, v.protocol)},
			start: []string{name + ".service"}, stop: []string{name + ".service"},
			deploy: "systemctl reload " + name, added: supervisorPath + " run",
		})
	}
	return all
}

const (
	compareHAProxy = `global
    stats socket ipv4@127.0.0.1:9999 level admin
    maxconn 4000
defaults
    mode http
    timeout client 10s
    timeout connect 1s
    timeout server 10s
frontend web
    bind ` + address + `
    default_backend be
backend be
    server a 127.0.0.1:9001
    server b 127.0.0.1:9002 disabled
`
	compareNginx = `pid /run/nginx.pid;
worker_processes 2;
error_log /dev/null crit;
events { worker_connections 4096; }
http {
	access_log off;
	keepalive_requests 1000000;
	upstream be {
		include /etc/nginx/backend.listed;
		keepalive 32;
	}
	server {
		listen ` + address + `;
		location / {
			proxy_pass http://be;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
		}
	}
}
`
)

func merge(a, b map[string]string) map[string]string {
	for k, v := range b {
		a[k] = v
	}
	return a
}

// isUnit tells a unit's name from a file's path.
func isUnit(name string) bool { return !strings.HasPrefix(name, "/") }
