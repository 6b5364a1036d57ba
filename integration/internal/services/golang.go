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
command = ["/usr/bin/prometheus-node-exporter", "--web.systemd-socket", "--collector.disable-defaults", "--collector.loadavg"]
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
		Config: `command = ["/usr/local/bin/app"]
`,
		Load:  load.Config{Rate: 200},
		Keeps: true,
		Few:   true,
	}
}
