package fdpass

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Census is what the kernel says about the TCP connections to some sockets.
// It is not one instant: a connection that opens or closes meanwhile may be
// missed. It does not change any more.
type Census struct {
	byPort map[uint16][]connection
}

// A connection is one TCP connection, or a handshake that may become one.
type connection struct {
	cookie    uint64 // the kernel's number of it
	state     uint8
	local     netip.AddrPort // an IPv4 address of an IPv6 socket is mapped
	peer      netip.AddrPort // likewise
	inode     uint64         // 0 before it is accepted
	unread    int            // bytes that nobody has read, in order
	received  uint64         // bytes that came, since it began
	sent      uint64         // bytes that went, since it began
	sinceRecv time.Duration  // since bytes came last, or since it began
}

// A pair is what a connection has in common with its handshake, for as long as
// either lasts. Their cookies may differ: where a handshake ends while the kernel
// writes it down for a census, the connection gets another one.
type pair struct{ local, peer netip.AddrPort }

func (c connection) pair() pair { return pair{c.local, c.peer} }

// handshake reports whether it is not open yet.
func (c connection) handshake() bool { return c.state == tcpSynRecv || c.state == tcpNewSynRecv }

// States of tcp_states.h, beside those in diag_linux.go: open, and open with the
// client's half closed.
const (
	tcpEstablished = 1
	tcpCloseWait   = 8

	underWay = 1<<tcpEstablished | 1<<tcpCloseWait | 1<<tcpSynRecv | 1<<tcpNewSynRecv

	diagInfo = 2 // INET_DIAG_INFO, a struct tcp_info
)

// fewPorts is up to how many ports the kernel is asked for each by itself,
// rather than for all its connections at once.
const fewPorts = 4

// TakeCensus asks the kernel about the connections to those of the sockets that
// are TCP, over sock_diag(7); it takes no privilege. It blocks as long as the
// kernel looks through its table, about 2 ms, 1 ms for each thousand connections
// to these ports (with more than a few ports: of the whole network namespace),
// and 1 ms for each seven thousand other sockets of the machine, of which most
// are in TIME_WAIT.
func TakeCensus(sockets []Bound) (*Census, error) {
	var all []reach
	for _, b := range sockets {
		all = append(all, reachesOf(b.Socket)...)
	}
	return takeCensus(all)
}

// takeCensus is TakeCensus for listeners with these reaches.
func takeCensus(all []reach) (*Census, error) {
	wanted := make(map[uint16]bool)
	families := make(map[uint8]bool)
	for _, at := range all {
		wanted[at.addr.Port()] = true
		families[at.family()] = true
	}
	ask := slices.Sorted(maps.Keys(wanted))
	if len(ask) > fewPorts {
		ask = []uint16{0} // all of them
	}
	c := &Census{byPort: make(map[uint16][]connection)}
	for family := range families {
		for _, port := range ask {
			err := diag(unix.NLM_F_DUMP, inetRequest(family, port, underWay, 1<<(diagInfo-1)), func(payload []byte) error {
				conn, err := readConnection(payload)
				if port := conn.local.Port(); err == nil && wanted[port] {
					c.byPort[port] = append(c.byPort[port], conn)
				}
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("ask the kernel for connections: %w", err)
			}
		}
	}
	return c, nil
}

// Count returns how many of the connections to a TCP socket have one of these
// inode numbers: those of the descriptors of a generation. It is 0 for others.
func (c *Census) Count(s Socket, inodes map[uint64]bool) int {
	n := 0
	for _, at := range reachesOf(s) {
		for conn := range c.to(at) {
			if conn.inode != 0 && inodes[conn.inode] {
				n++
			}
		}
	}
	return n
}

// Established returns the inode numbers of the open connections to a TCP socket
// that a process has accepted; none for others.
func (c *Census) Established(s Socket) []uint64 {
	var inodes []uint64
	for _, at := range reachesOf(s) {
		for conn := range c.to(at) {
			if conn.state == tcpEstablished && conn.inode != 0 {
				inodes = append(inodes, conn.inode)
			}
		}
	}
	return inodes
}

// Accepted reports whether a process has accepted a connection, of which c is the
// client's end, to one of the sockets.
func (c *Census) Accepted(client net.Conn) bool {
	local, ok := client.LocalAddr().(*net.TCPAddr)
	if !ok {
		return false
	}
	remote, ok := client.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return false
	}
	from := plain(local.AddrPort())
	for _, conn := range c.byPort[uint16(remote.Port)] {
		if conn.inode != 0 && plain(conn.peer) == from {
			return true
		}
	}
	return false
}

// plain makes addresses of both families and notations comparable.
func plain(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// to yields the connections that a listener with this reach may have got.
func (c *Census) to(at reach) func(yield func(connection) bool) {
	return func(yield func(connection) bool) {
		for _, conn := range c.byPort[at.addr.Port()] {
			if at.takes(conn.local) && !yield(conn) {
				return
			}
		}
	}
}

// A reach is which connections come to a TCP listener.
type reach struct {
	addr   netip.AddrPort // unspecified stands for all of the family
	v6only bool
}

// reachesOf returns the reaches of the listeners behind a socket; none if it is not
// TCP.
func reachesOf(s Socket) []reach {
	if many, ok := s.(interface{ reaches() []reach }); ok {
		return many.reaches()
	}
	spec, err := ParseSpec(s.Addr())
	if err != nil || !spec.tcp() {
		return nil
	}
	at, err := endpoint{network: spec.Network, address: spec.Address}.reach()
	if err != nil {
		return nil
	}
	return []reach{at}
}

// reach returns the reach of a TCP listener.
func (e endpoint) reach() (at reach, err error) {
	at.v6only = e.network == TCP6
	at.addr, err = e.addrPort()
	return at, err
}

// family returns the address family of the connections. Those of an IPv6
// listener are IPv6, also where the packets are IPv4.
func (r reach) family() uint8 {
	if r.addr.Addr().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// takes reports whether a connection to local, of the same port, may be its.
func (r reach) takes(local netip.AddrPort) bool {
	own, ip := r.addr.Addr(), local.Addr()
	switch {
	case own.Is4() != ip.Is4():
		return false
	case !own.IsUnspecified():
		return own.WithZone("") == ip
	}
	return !r.v6only || !ip.Is4In6()
}

// inetRequest is a struct inet_diag_req_v2 for TCP sockets: of one local port,
// or of all if it is 0.
func inetRequest(family uint8, port uint16, states uint32, attributes uint8) []byte {
	b := make([]byte, inetRequestSize)
	b[0] = family
	b[1] = unix.IPPROTO_TCP
	b[2] = attributes
	native.PutUint32(b[4:], states)
	id := b[8:] // struct inet_diag_sockid
	binary.BigEndian.PutUint16(id, port)
	native.PutUint32(id[40:], anyCookie)
	native.PutUint32(id[44:], anyCookie)
	return b
}

// readConnection reads a struct inet_diag_msg with its attributes.
func readConnection(payload []byte) (connection, error) {
	if len(payload) < inetReplySize {
		return connection{}, errShortMessage
	}
	id := payload[4:]
	local, peer := netip.AddrFrom4([4]byte(id[4:8])), netip.AddrFrom4([4]byte(id[20:24]))
	if payload[0] == unix.AF_INET6 {
		local, peer = netip.AddrFrom16([16]byte(id[4:20])), netip.AddrFrom16([16]byte(id[20:36]))
	}
	c := connection{
		cookie: uint64(native.Uint32(id[44:]))<<32 | uint64(native.Uint32(id[40:])),
		state:  payload[1],
		local:  netip.AddrPortFrom(local, binary.BigEndian.Uint16(id)),
		peer:   netip.AddrPortFrom(peer, binary.BigEndian.Uint16(id[2:])),
		unread: int(native.Uint32(payload[56:])),
		inode:  uint64(native.Uint32(payload[68:])),
	}
	if c.state == tcpCloseWait && c.unread > 0 {
		c.unread-- // the end itself counts as a byte
	}
	err := attributes(payload[inetReplySize:], func(kind uint16, value []byte) {
		var info unix.TCPInfo // older kernels tell the first part of it
		if kind != diagInfo {
			return
		}
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info)), value)
		c.received, c.sent = info.Bytes_received, info.Bytes_sent
		if uintptr(len(value)) <= unsafe.Offsetof(info.Bytes_sent) {
			c.sent = info.Bytes_acked // before Linux 4.19
		}
		c.sinceRecv = time.Duration(info.Last_data_recv) * time.Millisecond
	})
	return c, err
}
