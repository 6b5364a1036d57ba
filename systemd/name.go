package systemd

import (
	"errors"
	"fmt"
	"strings"
)

// ErrName is returned for a name that does not do for a unit and a directory.
var ErrName = errors.New("not a usable name")

// maxName is how long a name may be. systemd allows 255 bytes for the whole
// name of a unit, but sockets in a directory of this name have to stay within
// the 107 bytes of a unix socket's path.
const maxName = 64

// CheckName returns nil if name does as the name of a unit (without ".service")
// and of the unit's directories: at most 64 letters, digits, '.', '_' and '-',
// the first a letter or a digit. Otherwise the error tells why not, and wraps
// ErrName.
func CheckName(name string) error {
	var reason string
	switch {
	case name == "":
		reason = "it is empty"
	case len(name) > maxName:
		reason = fmt.Sprintf("it is longer than %d characters", maxName)
	case !isAlphanumeric(rune(name[0])):
		reason = "it must begin with a letter or a digit"
	case strings.HasSuffix(name, ".service"):
		reason = `it must be without ".service"`
	default:
		for _, r := range name {
			if !isAlphanumeric(r) && !strings.ContainsRune("._-", r) {
				reason = fmt.Sprintf("%q is not one of letters, digits, '.', '_' and '-'", r)
				break
			}
		}
	}
	if reason == "" {
		return nil
	}
	return fmt.Errorf("%w: %q: %s", ErrName, name, reason)
}

func isAlphanumeric(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}
