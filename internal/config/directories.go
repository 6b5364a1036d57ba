package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// maxRuntimeDirectory leaves room for the names of sockets within the 107 bytes
// that the path of a unix socket may have.
const maxRuntimeDirectory = 107 - len("/notify.") - len("18446744073709551615")

// A directory is one of the two that the supervisor has for itself.
type directory struct {
	key        string // that configures it
	ofSystemd  string // variable in which systemd tells it, as a list
	ofRoot     string // where it is for root, and
	ofUser     string // variable that tells where it is for others
	inHome     string // where it is in HOME if that one is not set, or ""
	configured func(*draft) *string
}

func directories() []directory {
	return []directory{
		{
			key: "runtime-directory", ofSystemd: "RUNTIME_DIRECTORY", ofRoot: "/run", ofUser: "XDG_RUNTIME_DIR",
			configured: func(c *draft) *string { return &c.RuntimeDirectory },
		},
		{
			key: "state-directory", ofSystemd: "STATE_DIRECTORY", ofRoot: "/var/lib", ofUser: "XDG_STATE_HOME", inHome: ".local/state",
			configured: func(c *draft) *string { return &c.StateDirectory },
		},
	}
}

// choose returns the directory of the supervisor with that name, where none is
// configured.
func (d directory) choose(name string, root bool, getenv func(string) string) (string, error) {
	if list := getenv(d.ofSystemd); list != "" {
		first, _, _ := strings.Cut(list, ":")
		return first, nil
	}
	base := d.ofRoot
	if !root {
		base = getenv(d.ofUser)
		if home := getenv("HOME"); !filepath.IsAbs(base) && d.inHome != "" && filepath.IsAbs(home) {
			base = filepath.Join(home, d.inHome)
		}
		if !filepath.IsAbs(base) { // relative ones are to be ignored, says the XDG specification
			return "", fmt.Errorf("there is no default, since %s is not set: a session of logind's sets it (log in anew, rather than by su or sudo), or give a directory of your own as --%s", d.ofUser, d.key)
		}
	}
	return filepath.Join(base, "zddsupervisor", name), nil
}
