package child

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// PassServerStarter is that of Server::Starter, see start_server(1):
//
//	SERVER_STARTER_PORT=127.0.0.1:80=3;[::1]:80=4;/run/app.sock=5
//	SERVER_STARTER_GENERATION=7
//
// Its addresses are those that sockets are bound to: 0.0.0.0:80, and not 80, for
// all of the machine's. A name in it may not have ';' or '=', nor may it be an
// abstract one.
const PassServerStarter Pass = "server-starter"

func serverStarter() protocol {
	return protocol{PassServerStarter, named("SERVER_STARTER_PORT", "SERVER_STARTER_GENERATION"), func(c *Command) ([]string, error) {
		var entries []string
		for i, s := range c.Sockets {
			spec, err := s.spec()
			if err != nil {
				return nil, err
			}
			abstract := strings.HasPrefix(spec.Address, "@")
			if abstract || strings.ContainsAny(spec.Address, ";=") || spec.Network == fdpass.UnixPacket || spec.Network == fdpass.UnixGram {
				return nil, fmt.Errorf("Server::Starter has no way to tell a program of the socket %s", s.Address)
			}
			entries = append(entries, spec.Address+"="+descriptor(i))
		}
		return []string{
			"SERVER_STARTER_PORT=" + strings.Join(entries, ";"),
			"SERVER_STARTER_GENERATION=" + strconv.Itoa(c.Generation),
		}, nil
	}}
}
