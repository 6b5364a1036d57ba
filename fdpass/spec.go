package fdpass

import (
	"path"
	"strings"
	"time"
)

// A Mode says how the generations of a service share one address.
type Mode string

const (
	// Shared is one kernel socket that every generation inherits. Whoever
	// accepts first gets the connection.
	Shared Mode = "shared"
	// Steered is a kernel socket for each generation, in one SO_REUSEPORT group
	// in which a program decides where each new connection goes.
	Steered Mode = "steered"
)

// A Pass says how a socket comes to the service.
type Pass string

const (
	// PassFD is for a service that takes a descriptor that it inherits.
	PassFD Pass = "fd"
	// PassPort is for a service that is told a port: each generation gets one of its
	// own, and the firewall redirects the public one.
	PassPort Pass = "port"
	// PassReusePort is for a service that listens on the address itself, with
	// SO_REUSEPORT.
	PassReusePort Pass = "reuseport"
	// PassAdopt is for a service that knows nothing of passed sockets: it binds its
	// usual address, and gets the supervisor's socket there. See Bound.Means.
	PassAdopt Pass = "adopt"
)

// passes is every Pass, the default first.
func passes() []Pass { return []Pass{PassFD, PassPort, PassReusePort, PassAdopt} }

// The networks of a Spec.
const (
	TCP        = "tcp"
	TCP4       = "tcp4"
	TCP6       = "tcp6"
	UDP        = "udp"
	UDP4       = "udp4"
	UDP6       = "udp6"
	Unix       = "unix" // stream
	UnixGram   = "unixgram"
	UnixPacket = "unixpacket" // connections that keep message boundaries
	Systemd    = "systemd"    // passed in by a .socket unit
)

// HTTP1 is the Protocol of HTTP/1.0 and HTTP/1.1 without TLS.
const HTTP1 = "http/1"

// A Spec describes one socket of a configuration. It is plain data: fill it
// field by field or with ParseSpec, and check it with Validate, since no field
// is checked before. Specs can be compared with ==.
//
// In error messages and in the text form each field but Network and Address
// goes by the option's name given with it.
type Spec struct {
	// Name is what the service finds in LISTEN_FDNAMES: at most 255 printable
	// ASCII characters without ':'. Empty stands for the name that FDName
	// makes from Network and Address. Option "name".
	Name string

	// Network is one of the constants above.
	Network string

	// Address depends on the network:
	//   - tcp and udp: HOST:PORT. An empty host stands for every address of
	//     the machine: with tcp and udp that is [::] for both IPv6 and IPv4,
	//     or 0.0.0.0 where the kernel has no IPv6. tcp4 and tcp6 take in one
	//     family alone. HOST is a literal address (IPv6 in brackets, with a
	//     zone if need be: [fe80::1%eth0]) or a host name. A name is looked up
	//     once, when the socket is bound, and the first address found is
	//     taken, IPv4 before IPv6. PORT is a number; 0 lets the kernel choose.
	//   - unix, unixgram and unixpacket: an absolute path, or '@' and the rest
	//     of an abstract name; either has at most 107 bytes, '@' not counted.
	//   - systemd: the FileDescriptorName= of the .socket unit. Of several
	//     sockets with one name each spec gets the next, in order.
	Address string

	// Mode is empty for the default: Steered for tcp (but not with ReusePort) and
	// for what systemd has made with ReusePort=yes, else Shared. A socket that is
	// to be steered is shared where the kernel cannot do it; Socket.Mode tells.
	// Option "mode".
	Mode Mode

	// Pass says how the socket comes to the service; empty stands for PassFD.
	// Option "pass".
	Pass Pass

	// Ports are the private ports that generations get in turn, with PassPort:
	// "18081-18082", or "18081,18083". Two at least. Option "ports".
	Ports string

	// Protocol says what is spoken on the socket's connections: HTTP1, or empty for
	// what nobody needs to know. Option "protocol".
	Protocol string

	// Apart keeps two generations from having a datagram socket at the same time,
	// where each datagram would go to one of them by chance: the old one is stopped
	// first, and datagrams wait in the socket. Option "overlap", inverted.
	Apart bool

	// Backlog is how many connections may wait to be accepted; 0 stands for as
	// many as the kernel allows (net.core.somaxconn). The kernel clamps what is
	// above that. Option "backlog".
	Backlog int

	// Owner and Group are names or numbers of the owner of a unix path. Empty
	// leaves the supervisor's own. Options "owner" and "group".
	Owner, Group string

	// Permissions are the permission bits of a unix path, such as 0660; to
	// connect takes write permission. 0 stands for what the supervisor's umask
	// leaves of 0777. Option "permissions", in octal.
	Permissions uint32

	// V6Only keeps IPv4 out of a socket on an IPv6 address (see ipv6(7)). It is
	// always so for tcp6 and udp6. Option "v6only".
	V6Only bool

	// FreeBind allows an address that the machine does not have yet, see
	// IP_FREEBIND in ip(7). Option "freebind".
	FreeBind bool

	// ReusePort lets other sockets of the same user bind the same address, see
	// SO_REUSEPORT in socket(7). They decide then where connections go, so that
	// it excludes steered mode. Option "reuseport".
	ReusePort bool

	// Transparent allows foreign addresses, see IP_TRANSPARENT in ip(7). It
	// takes CAP_NET_ADMIN. Option "transparent".
	Transparent bool

	// ReceiveBuffer and SendBuffer are sizes in bytes, see SO_RCVBUF and
	// SO_SNDBUF in socket(7); accepted connections inherit them. 0 leaves the
	// kernel's default. Options "rcvbuf" and "sndbuf".
	ReceiveBuffer, SendBuffer int

	// Mark is the firewall mark of the packets sent, see SO_MARK in socket(7).
	// It takes CAP_NET_ADMIN. 0 stands for none. Option "mark".
	Mark uint32

	// Device is the network interface that the socket is confined to, see
	// SO_BINDTODEVICE in socket(7). Option "device".
	Device string

	// DeferAccept lets a connection wait in the kernel until its first data
	// has come, at most about this long, see TCP_DEFER_ACCEPT in tcp(7). Whole
	// seconds; 0 stands for off. Option "defer-accept".
	DeferAccept time.Duration

	// FastOpen is how many connections may wait that sent data with their SYN,
	// see TCP_FASTOPEN in tcp(7); 0 stands for off. Option "fastopen".
	FastOpen int

	// NonBlocking sets O_NONBLOCK on the socket that the service gets. The flag
	// belongs to the socket and not to a process, so it is set once, when the
	// socket is made, and never changed. The default is false, as in systemd.
	// Option "nonblocking".
	NonBlocking bool
}

// FDName returns the name under which the service gets the socket: Name, or
// else one made from the rest: "tcp-8080" for tcp://:8080, "unix-/run/a.sock",
// and NAME for systemd:NAME.
func (s Spec) FDName() string {
	if s.Name != "" {
		return s.Name
	}
	name := s.Network + "-" + strings.TrimPrefix(s.Address, ":")
	if s.Network == Systemd {
		name = s.Address
	}
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == ':' {
			return '-'
		}
		return r
	}, name)
	return name[:min(len(name), maxName)]
}

// Key returns what the socket is known by while the configuration changes: a
// spec with the key of a socket that is open is served by that socket, whatever
// its name and place in the list. Two ways to write one address have the same
// key: ":80" and "[::]:80", or "tcp4://:80" and "tcp://0.0.0.0:80".
//
// Only port 0, the sockets of one systemd name and sockets with ReusePort can
// have one key several times in a configuration; Open then goes by name first.
func (s Spec) Key() string {
	switch {
	case s.inet():
		h, err := s.hostPort()
		if err != nil {
			return s.Network + " " + s.Address
		}
		key := s.transport() + " " + h.key(s.Network)
		if s.Device != "" {
			key += " on " + s.Device
		}
		return key
	case s.unixPath():
		// A path is one file, whatever the type of the socket on it.
		return Unix + " " + path.Clean(s.Address)
	default:
		return s.Network + " " + s.Address
	}
}

// Steerable reports whether the spec asks for a socket in steered mode. That of a
// systemd socket is known only once it is there: it is true if it asks for it
// in so many words.
func (s Spec) Steerable() bool { return s.mode() == Steered }

// Inherited reports whether the service has the socket from its start on, as a
// descriptor that is announced to it.
func (s Spec) Inherited() bool { return s.pass() == PassFD }

// SelfBound reports whether the service opens the socket itself, so that the Socket
// is a SelfBound.
func (s Spec) SelfBound() bool { return s.Pass == PassPort || s.Pass == PassReusePort }

// pass returns how the socket comes to the service, never "".
func (s Spec) pass() Pass {
	if s.Pass == "" {
		return PassFD
	}
	return s.Pass
}

// mode returns the mode that the spec asks for, never "".
func (s Spec) mode() Mode {
	switch {
	case s.Mode != "":
		return s.Mode
	case s.tcp() && !s.ReusePort:
		return Steered
	}
	return Shared
}

// inet reports whether the socket is one of the internet protocols.
func (s Spec) inet() bool { return s.tcp() || s.udp() }

func (s Spec) tcp() bool {
	return s.Network == TCP || s.Network == TCP4 || s.Network == TCP6
}

func (s Spec) udp() bool {
	return s.Network == UDP || s.Network == UDP4 || s.Network == UDP6
}

// transport returns "tcp" or "udp" for an internet network.
func (s Spec) transport() string {
	if s.tcp() {
		return TCP
	}
	return UDP
}

// local reports whether the socket is a unix socket, of any type.
func (s Spec) local() bool {
	return s.Network == Unix || s.Network == UnixGram || s.Network == UnixPacket
}

// unixPath reports whether the socket is a unix socket with a file.
func (s Spec) unixPath() bool { return s.local() && !strings.HasPrefix(s.Address, "@") }

// listens reports whether the socket takes connections, rather than datagrams.
// What a systemd socket does is known only once it is there.
func (s Spec) listens() bool {
	return s.tcp() || s.Network == Unix || s.Network == UnixPacket
}

// v6only reports whether IPv4 stays out, by the option or by the network.
func (s Spec) v6only() bool {
	return s.V6Only || s.Network == TCP6 || s.Network == UDP6
}
