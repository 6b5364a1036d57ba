package fdpass

import (
	"time"
)

// A Mode says how the generations of a service share one address.
type Mode string

const (
	// Shared is one kernel socket that every generation inherits. Whoever
	// accepts first gets the connection.
	Shared Mode = "shared"
	// Steered is a kernel socket for each generation, in one SO_REUSEPORT group
	// in which a program decides where each new connection goes. It is for TCP.
	Steered Mode = "steered"
)

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

// A Spec describes one socket of a configuration. It is plain data: fill it
// field by field or with ParseSpec, and check it with Validate, since no field
// is checked before. Specs can be compared with ==.
//
// In error messages and in the text form each field below Address goes by the
// option's name given with it.
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
	//     of an abstract name; either has at most 107 bytes.
	//   - systemd: the FileDescriptorName= of the .socket unit.
	Address string

	// Mode is empty for the default of the network. Option "mode".
	Mode Mode

	// Backlog is how many connections may wait to be accepted; 0 stands for as
	// many as the kernel allows (net.core.somaxconn). More than that is
	// clamped by the kernel. Option "backlog".
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
	// SO_REUSEPORT in socket(7). Option "reuseport".
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
