package config

import (
	"net"
	"strconv"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// firstFreePort is the lowest port that everybody may bind, on a machine that has
// ip_unprivileged_port_start of ip(7) as it comes.
const firstFreePort = 1024

// A Privilege is a capability, see capabilities(7), and what it is needed for.
type Privilege struct{ Capability, For string }

// Privileges returns what a supervisor that runs as root needs for c, where the
// service runs as another user; the service itself then has none of them. Nothing
// can be said of a service that runs as root, and it returns nil.
func (c *Config) Privileges() []Privilege {
	if c.User == "" || c.User == "root" || c.User == "0" {
		return nil
	}
	user := "to run the service as " + c.User
	needs := []Privilege{
		{"CAP_SETUID", user},
		{"CAP_SETGID", user},
		{"CAP_KILL", "to signal the service, which is another user's"},
		{"CAP_SYS_PTRACE", "to see which sockets and connections the service has open, and to carry connections over"},
	}
	add := func(need bool, capability, purpose string) {
		for _, p := range needs {
			need = need && p.Capability != capability
		}
		if need {
			needs = append(needs, Privilege{capability, purpose})
		}
	}
	for _, s := range c.Sockets {
		of := "for the socket " + s.FDName() + ": "
		path := strings.HasPrefix(s.Network, fdpass.Unix) && strings.HasPrefix(s.Address, "/")
		add(lowPort(s), "CAP_NET_BIND_SERVICE", of+"its port")
		add(s.Transparent || s.Mark != 0, "CAP_NET_ADMIN", of+"transparent or mark")
		add(s.Pass == fdpass.PassPort, "CAP_NET_ADMIN", of+"the firewall redirects its port")
		add(s.Device != "", "CAP_NET_RAW", of+"device")
		add(path, "CAP_DAC_OVERRIDE", of+"its directory may be another user's")
		add(path && (s.Owner != "" || s.Group != ""), "CAP_CHOWN", of+"owner and group")
		add(path && (s.Owner != "" || s.Group != ""), "CAP_FOWNER", of+"permissions of what is another user's")
	}
	add(c.Releases.Managed(), "CAP_DAC_OVERRIDE", "to change releases.current and to remove old releases, in directories that may be another user's")
	add(len(c.Limits) > 0, "CAP_SYS_RESOURCE", "to raise limits")
	add(true, "CAP_DAC_READ_SEARCH", "to read environment files, links and programs that are another user's")
	return needs
}

// lowPort reports whether binding the socket takes a privilege.
func lowPort(s fdpass.Spec) bool {
	if !strings.HasPrefix(s.Network, "tcp") && !strings.HasPrefix(s.Network, "udp") {
		return false
	}
	_, text, err := net.SplitHostPort(s.Address)
	port, portErr := strconv.Atoi(text)
	return err == nil && portErr == nil && port > 0 && port < firstFreePort
}
