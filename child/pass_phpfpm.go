package child

import (
	"fmt"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// PassPHPFPM is that by which php-fpm hands its sockets to itself when it is
// reloaded (sapi/fpm/fpm/fpm_sockets.c):
//
//	FPM_SOCKETS=127.0.0.1:9000=3,/run/php/app.sock=4
//
// An IPv6 address is without brackets. php-fpm takes the sockets that "listen" of a
// pool names in the very same way, and closes the others, with the path of a unix
// socket removed. A name may not have ',' or '=', nor may it be an abstract one.
const PassPHPFPM Pass = "php-fpm"

func phpFPM() protocol {
	return protocol{PassPHPFPM, named("FPM_SOCKETS", "FPM_SOCKETS_1"), func(c *Command) ([]string, error) {
		var entries []string
		for i, s := range c.Sockets {
			spec, err := s.spec()
			if err != nil {
				return nil, err
			}
			address := spec.Address
			switch spec.Network {
			case fdpass.TCP, fdpass.TCP4, fdpass.TCP6:
				address = strings.NewReplacer("[", "", "]", "").Replace(address)
			case fdpass.Unix:
			default:
				address = "@"
			}
			if strings.HasPrefix(address, "@") || strings.ContainsAny(address, ",=") {
				return nil, fmt.Errorf("php-fpm has no way to be told of the socket %s", s.Address)
			}
			entries = append(entries, address+"="+descriptor(i))
		}
		return []string{"FPM_SOCKETS=" + strings.Join(entries, ",")}, nil
	}}
}
