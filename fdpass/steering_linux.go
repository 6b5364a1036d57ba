package fdpass

import (
	"encoding/binary"
	"math"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// A steering says which socket of an SO_REUSEPORT group gets a new connection.
// Sockets go by their place in the group: the order in which they joined it, but that
// the last one takes the place of one that leaves.
type steering struct {
	to     []int   // where connections go, to one of these by chance; none stands for the first place
	canary []int   // where some of them go instead
	share  float64 // how many, of 1; 0 means none
	probes []probe // whose connection has a place of its own
}

// A probe is one connection, which a packet can be told to belong to.
type probe struct {
	from, to netip.AddrPort
	place    int
}

// Where a program finds the parts of a packet: its absolute loads begin at the
// IP header, see "Linux Socket Filtering" in the kernel's documentation.
const (
	netOff    = math.MaxUint32 + 1 - 0x100000    // SKF_NET_OFF of linux/filter.h
	randomOff = math.MaxUint32 + 1 - 0x1000 + 56 // SKF_AD_OFF + SKF_AD_RANDOM

	v4Source, v4Destination         = 12, 16
	v6Source, v6Destination, v6Size = 8, 24, 40
)

// program returns the steering as a classic BPF program for
// SO_ATTACH_REUSEPORT_CBPF, see socket(7). What it returns is the place. A place
// that is not in the group leaves the choice to the kernel, which takes a hash.
func (s steering) program() []unix.SockFilter {
	var p []unix.SockFilter
	for _, probe := range s.probes {
		p = append(p, probe.program()...)
	}
	if s.share >= 1 {
		return append(p, giveOne(s.canary)...)
	}
	if s.share > 0 {
		canary := giveOne(s.canary)
		p = append(p,
			load(unix.BPF_W, randomOff),
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: threshold(s.share), Jf: 1},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(canary))})
		p = append(p, canary...)
	}
	return append(p, giveOne(s.to)...)
}

// giveOne gives a connection to one of the places, by chance.
func giveOne(places []int) []unix.SockFilter {
	switch len(places) {
	case 0:
		return []unix.SockFilter{give(0)}
	case 1:
		return []unix.SockFilter{give(places[0])}
	}
	code := []unix.SockFilter{
		load(unix.BPF_W, randomOff),
		{Code: unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K, K: uint32(len(places))},
	}
	for i, place := range places[1:] {
		code = append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(i + 1), Jf: 1}, give(place))
	}
	return append(code, give(places[0]))
}

// threshold is what a random number of 32 bits is below in share of all cases,
// which are not all.
func threshold(share float64) uint32 {
	return uint32(min(math.Round(share*(1<<32)), math.MaxUint32))
}

// program gives the connection its place, and goes on after its last
// instruction with every other one. Addresses and source port have to be those
// of the probe; the destination port is that of the group.
func (p probe) program() []unix.SockFilter {
	type match struct {
		load unix.SockFilter
		want uint32
	}
	var version uint32
	var matches []match
	words := func(offset uint32, address []byte) {
		for i := 0; i < len(address); i += 4 {
			matches = append(matches, match{load(unix.BPF_W, netOff+offset+uint32(i)), binary.BigEndian.Uint32(address[i:])})
		}
	}
	port := load(unix.BPF_H, netOff+v6Size)
	if p.from.Addr().Unmap().Is4() { // also where the socket is IPv6: the packets are what they are
		version = 4
		from, to := p.from.Addr().Unmap().As4(), p.to.Addr().Unmap().As4()
		words(v4Source, from[:])
		words(v4Destination, to[:])
		// The header has a length of its own, in X.
		port = unix.SockFilter{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: netOff}
	} else {
		version = 6
		from, to := p.from.Addr().As16(), p.to.Addr().As16()
		words(v6Source, from[:])
		words(v6Destination, to[:])
	}
	matches = append(matches, match{port, uint32(p.from.Port())})

	code := []unix.SockFilter{
		load(unix.BPF_B, netOff),
		{Code: unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K, K: 4},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: version},
		{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: netOff},
	}
	for _, m := range matches {
		code = append(code, m.load, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: m.want})
	}
	code = append(code, give(p.place))
	for i := range code {
		if code[i].Code == unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K {
			code[i].Jf = uint8(len(code) - i - 1)
		}
	}
	return code
}

func load(size uint16, offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_ABS | size, K: offset}
}

func give(place int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: uint32(place)}
}

// attach makes the steering that of the group of the socket raw, which is
// borrowed, from one packet to the next. It needs no privilege.
func (s steering) attach(raw int) error {
	p := s.program()
	err := unix.SetsockoptSockFprog(raw, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]})
	return os.NewSyscallError("setsockopt SO_ATTACH_REUSEPORT_CBPF", err)
}
