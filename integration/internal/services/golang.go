package services

import (
	"github.com/zddsupervisor/zddsupervisor/integration/internal/build"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// --web.systemd-socket takes the sockets of LISTEN_FDS. It neither says when it is ready nor stops in order: SIGTERM ends it.
func nodeExporter() Service {
	return Service{
		Name: "prometheus-node-exporter",
		Config: `preset = "prometheus-exporter"
command = ["/usr/bin/prometheus-node-exporter", "--web.systemd-socket", "--web.max-requests=0",
  "--collector.disable-defaults", "--collector.loadavg"]
`,
		Load:        load.Config{Rate: 100, Path: "/metrics", VersionBody: `(?m)^process_start_time_seconds (\S+)$`},
		Persistent:  true,
		SharedReady: "[ready]\nby = \"delay\"\ndelay = \"500ms\"\n",
	}
}

// https://pkg.go.dev/github.com/coreos/go-systemd/v22: its packages activation and daemon.
func goSystemd() Service {
	return Service{
		Name:    "Go with coreos/go-systemd",
		Program: (*build.Programs).ActivatedService,
		Config:  "command = [\"/usr/local/bin/app\"]\n",
		Tells:   "environment = { EXECUTED = \"/run/executed\" }\n",
		Load:    load.Config{Rate: 200},
		Keeps:   true,
	}
}

const caddyConfig = `{
	admin off
	auto_https off
	persist_config off
}
http://:8080 {
	bind fd/{$SOCKET}
	header X-Version {$GENERATION}
	respond "hello"
}
`

// Caddy is the service at ProgramPath when it is caddy, which Debian has too old a version of and which takes long to compile: it is not one of
// All. https://caddyserver.com/docs/conventions#network-addresses: fd/N is a socket that is open already. It says READY=1.
func Caddy() Service {
	return Service{
		Name:  "Caddy",
		Files: map[string]string{"/etc/caddy/Caddyfile": caddyConfig},
		Config: `preset = "caddy"
command = ["/usr/local/bin/app", "run", "--config", "/etc/caddy/Caddyfile"]
environment = { SOCKET = "{fd:http}", GENERATION = "{generation}", HOME = "/run" }
`,
		Load:       load.Config{Rate: 200},
		Persistent: true,
	}
}
