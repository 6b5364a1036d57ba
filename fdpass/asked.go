package fdpass

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// An Asked is what a program asks bind(2) for: an address, for a socket of a certain
// kind. AskedOf makes one.
type Asked struct {
	network string         // TCP or UDP, with a 6 for [::] without IPv4; Unix, UnixGram or UnixPacket
	ip      netip.AddrPort // of an internet socket; a zone is the number of the interface
	path    string         // of a unix socket, as this process can open it; or '@' and an abstract name
}

// String returns what was asked for as a spec, such as a configuration may have.
func (a Asked) String() string {
	address := a.path
	if a.inet() {
		address = a.ip.String()
	}
	return Spec{Network: a.network, Address: address}.address()
}

func (a Asked) inet() bool { return Spec{Network: a.network}.inet() }

// Means reports whether who asks for this gets the socket of b: it is what the socket
// is bound to. An address of the machine is not the same as all of them, nor is IPv4
// the same as IPv6: the service would take connections that it did not ask for, and
// see addresses of clients in a form that it does not expect. An IPv4 address that is
// asked for in the form of IPv6 is the IPv4 address, though: such a service knows both
// forms. Port 0 means a socket
// whose configuration says 0 too.
//
// A unix path is the same if its directory is, by whatever way it was reached. For
// that the file system is asked.
func (b Bound) Means(a Asked) bool {
	own, err := ParseSpec(b.Socket.Addr())
	if err != nil {
		return false
	}
	if !a.inet() {
		return own.local() && own.Network == a.network && samePath(own.Address, a.path)
	}
	at, err := own.literal()
	if err != nil || own.Network != a.network || at.Addr() != a.ip.Addr() {
		return false
	}
	return a.ip.Port() == at.Port() || a.ip.Port() == 0 && b.Spec.anyPort()
}

// Resembles reports whether somebody who asks for this has most likely meant the socket
// of b, although Means says that it is not: an internet address with the same port, or a
// unix path or name on another kind of socket.
func (b Bound) Resembles(a Asked) bool {
	own, err := ParseSpec(b.Socket.Addr())
	if err != nil || b.Means(a) {
		return false
	}
	if !a.inet() {
		return own.local() && samePath(own.Address, a.path)
	}
	at, err := own.literal()
	return err == nil && own.transport() == (Spec{Network: a.network}).transport() && at.Port() == a.ip.Port()
}

// literal returns the address of a spec as Socket.Addr gives it, with a zone by its
// number.
func (s Spec) literal() (netip.AddrPort, error) {
	if !s.inet() {
		return netip.AddrPort{}, errNoAddress
	}
	at, err := netip.ParseAddrPort(s.Address)
	if err != nil || at.Addr().Zone() == "" {
		return at, err
	}
	id, err := zoneID(at.Addr().Zone())
	return netip.AddrPortFrom(zoned(at.Addr(), id), at.Port()), err
}

// anyPort reports whether the spec lets the kernel choose the port.
func (s Spec) anyPort() bool { return s.inet() && s.port() == 0 }

// samePath reports whether two unix addresses are the same.
func samePath(a, b string) bool {
	if a == b {
		return a != ""
	}
	if noPath(a) || noPath(b) || filepath.Base(a) != filepath.Base(b) {
		return false
	}
	// Not the file itself, which may be gone: bind(2) makes it, and follows no link there.
	dir, err := os.Stat(dirOf(a))
	if err != nil {
		return false
	}
	other, err := os.Stat(dirOf(b))
	return err == nil && os.SameFile(dir, other)
}

// dirOf returns the directory of a path as it is written: filepath.Dir would take .. for
// the way back, which it is not behind a symbolic link, such as the working directory of
// another process is in proc(5).
func dirOf(path string) string { return path[:strings.LastIndexByte(path, '/')+1] + "." }

// noPath reports whether the address of a unix socket is no path.
func noPath(address string) bool { return address == "" || address[0] == '@' }
