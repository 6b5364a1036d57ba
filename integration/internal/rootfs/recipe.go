package rootfs

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed build.sh
var script string

// Recipe says what goes into a root file system.
type Recipe struct {
	// Suite is Debian's name of the release.
	Suite string
	// Systemd is the major version of systemd in it.
	Systemd int
	// Base are the packages of every machine, Extra those that a test may need besides.
	Base, Extra []string
}

// base is what the harness itself needs in each machine.
func base() []string { return []string{"systemd", "dbus", "iproute2", "procps", "curl"} }

// Trixie is Debian 13 with systemd 257, and with the real services that the tests hand over.
func Trixie() Recipe {
	return Recipe{Suite: "trixie", Systemd: 257, Base: base(), Extra: []string{
		"gunicorn", "uvicorn", "haproxy", "prometheus-node-exporter", "nodejs", "nginx", "libserver-starter-perl",
		"puma", "python3-hypercorn", "daphne", "lighttpd", "uwsgi-core", "uwsgi-plugin-python3", "php-fpm", "node-express", "starlet",
		"openssh-server", "unbound", "podman",
	}}
}

// Forky is Debian 14 with systemd 262, and with services that bind for themselves: nginx, and a Node.js that knows reusePort, which Debian 13's
// does not; one that is not HTTP, one in Java, and one in Rust.
func Forky() Recipe {
	return Recipe{Suite: "forky", Systemd: 262, Base: base(), Extra: []string{"nginx", "nodejs", "memcached", "default-jre-headless", "mdbook"}}
}

// All are the recipes of all machines.
func All() []Recipe { return []Recipe{Trixie(), Forky()} }

// name is the directory's name in the cache. It changes with whatever goes into the root file system.
func (r Recipe) name() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		script, runtime.GOARCH, r.Suite, strings.Join(r.Base, ","), strings.Join(r.Extra, " "),
	}, "\x00")))
	return r.Suite + "-" + hex.EncodeToString(sum[:8])
}

// Cache is the directory for everything that is worth keeping between runs: $ZDD_TEST_CACHE, or zddsupervisor under $XDG_CACHE_HOME,
// or /var/cache/zddsupervisor.
func Cache() string {
	if dir := os.Getenv("ZDD_TEST_CACHE"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "zddsupervisor")
	}
	return "/var/cache/zddsupervisor"
}
