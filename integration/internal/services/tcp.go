package services

import "github.com/zddsupervisor/zddsupervisor/internal/load"

// Debian's sshd takes sockets by LISTEN_FDS. Each connection has a process of its own, which lives on when SIGTERM ends the one that listens.
// The two last options are there for a load of clients that never log in.
func sshd() Service {
	return Service{
		Name: "sshd",
		Config: `preset = "sshd"
command = ["/usr/sbin/sshd", "-D", "-e", "-o", "PidFile=none", "-o", "VersionAddendum=release-{generation}",
  "-o", "MaxStartups=1000", "-o", "PerSourcePenalties=no"]

[check]
command = ["/usr/bin/mkdir", "-p", "/run/sshd"]
`,
		Load:        load.Config{Rate: 50, Greeting: `^SSH-2.0-.* (release-\d+)`},
		SharedReady: "[ready]\nby = \"delay\"\ndelay = \"500ms\"\n",
	}
}
