package child

import "strings"

// PassNginx is that by which nginx hands its sockets to the program that replaces
// it, see "Upgrading Executable on the Fly" in
// https://nginx.org/en/docs/control.html:
//
//	NGINX=3;4;
//
// Of these nginx takes the ones whose addresses its configuration listens on, to
// the letter of the address that they are bound to, and closes the others. It takes
// itself for the successor of another nginx: it stays in the foreground whatever
// "daemon" says, and does not remove a unix socket as long as its parent is the one
// that has started it. It tells of any socket.
const PassNginx Pass = "nginx"

func nginx() protocol {
	return protocol{PassNginx, named("NGINX"), func(c *Command) ([]string, error) {
		var all strings.Builder
		for i := range c.Sockets {
			all.WriteString(descriptor(i) + ";")
		}
		return []string{"NGINX=" + all.String()}, nil
	}}
}
