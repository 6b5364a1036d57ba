package child

import (
	"strconv"
	"strings"
)

// PassListenFDs is systemd's, see sd_listen_fds(3): LISTEN_FDS, LISTEN_FDNAMES and
// LISTEN_PID, which the shim adds. It tells of any socket.
const PassListenFDs Pass = "listen-fds"

func listenFDs() protocol {
	return protocol{PassListenFDs, named("LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID"), func(c *Command) ([]string, error) {
		names := make([]string, len(c.Sockets))
		for i, s := range c.Sockets {
			names[i] = s.Name
			if s.Name == "" {
				names[i] = "unknown"
			}
		}
		return []string{"LISTEN_FDS=" + strconv.Itoa(len(names)), "LISTEN_FDNAMES=" + strings.Join(names, ":")}, nil
	}}
}
