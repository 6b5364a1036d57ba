package child

import (
	"os"
	"strconv"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// PassEinhorn is that of einhorn, https://github.com/contribsys/einhorn:
//
//	EINHORN_FD_COUNT=2  EINHORN_FD_0=3  EINHORN_FD_1=4
//	EINHORN_FD_FAMILY_0=AF_INET  EINHORN_FD_FAMILY_1=AF_UNIX
//	EINHORN_FDS=3 4
//	EINHORN_MASTER_PID=1234
//
// EINHORN_FDS is what its first versions had. By EINHORN_MASTER_PID, which is the
// supervisor's, a program finds out whether einhorn itself has started it: many
// look at nothing else without it. It tells of any socket.
//
// The socket on which a program then says that it is up, EINHORN_SOCK_PATH, is
// EinhornReady's.
const PassEinhorn Pass = "einhorn"

func einhorn() protocol {
	owns := func(variable string) bool {
		return variable == "EINHORN_FDS" || variable == "EINHORN_MASTER_PID" || strings.HasPrefix(variable, "EINHORN_FD_")
	}
	return protocol{PassEinhorn, owns, func(c *Command) ([]string, error) {
		all := make([]string, len(c.Sockets))
		env := []string{"EINHORN_MASTER_PID=" + strconv.Itoa(os.Getpid()), "EINHORN_FD_COUNT=" + strconv.Itoa(len(c.Sockets))}
		for i, s := range c.Sockets {
			spec, err := s.spec()
			if err != nil {
				return nil, err
			}
			all[i] = descriptor(i)
			env = append(env, "EINHORN_FD_"+strconv.Itoa(i)+"="+all[i], "EINHORN_FD_FAMILY_"+strconv.Itoa(i)+"="+addressFamily(spec))
		}
		return append(env, "EINHORN_FDS="+strings.Join(all, " ")), nil
	}}
}

// addressFamily is the C name of the address family of a socket that is bound.
func addressFamily(s fdpass.Spec) string {
	switch {
	case strings.HasPrefix(s.Network, fdpass.Unix):
		return "AF_UNIX"
	case strings.HasPrefix(s.Address, "["):
		return "AF_INET6"
	default:
		return "AF_INET"
	}
}
