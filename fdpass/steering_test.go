package fdpass

import (
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// run runs a program on a packet, which begins with its IP header, as the kernel
// does: a load from beyond the packet ends it with 0. random is what the kernel
// would draw.
func run(t *testing.T, program []unix.SockFilter, packet []byte, random uint32) uint32 {
	t.Helper()
	var a, x uint32
	for pc := 0; pc < len(program); pc++ {
		in := program[pc]
		jump := func(condition bool) {
			if condition {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case unix.BPF_LD | unix.BPF_ABS | unix.BPF_W, unix.BPF_LD | unix.BPF_ABS | unix.BPF_H, unix.BPF_LD | unix.BPF_ABS | unix.BPF_B, unix.BPF_LD | unix.BPF_IND | unix.BPF_H:
			if in.K == randomOff {
				a = random
				continue
			}
			at := int64(in.K) - netOff
			if in.Code&unix.BPF_IND != 0 {
				at += int64(x)
			}
			size := map[uint16]int64{unix.BPF_W: 4, unix.BPF_H: 2, unix.BPF_B: 1}[in.Code&0x18]
			if at < 0 || at+size > int64(len(packet)) {
				return 0
			}
			word := make([]byte, 4)
			copy(word[4-size:], packet[at:at+size])
			a = binary.BigEndian.Uint32(word)
		case unix.BPF_LDX | unix.BPF_MSH | unix.BPF_B:
			x = 4 * uint32(packet[in.K-netOff]&0xf)
		case unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K:
			a >>= in.K
		case unix.BPF_ALU | unix.BPF_MOD | unix.BPF_K:
			a %= in.K
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(a == in.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(a >= in.K)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			t.Fatalf("instruction %d has the code %#x, which the test does not know", pc, in.Code)
		}
	}
	t.Fatal("the program does not end with a return")
	return 0
}

// syn returns the first packet of a connection, with 32-bit words of IP options
// where it is IPv4.
func syn(from, to netip.AddrPort, options int) []byte {
	header := 40
	if from.Addr().Is4() {
		header = 20 + 4*options
	}
	p := make([]byte, header+20)
	source, destination := from.Addr().AsSlice(), to.Addr().AsSlice()
	if from.Addr().Is4() {
		p[0] = 4<<4 | byte(header/4)
		copy(p[12:], source)
		copy(p[16:], destination)
		for i := 20; i < header; i++ {
			p[i] = 1 // no operation
		}
	} else {
		p[0] = 6<<4 | 0xf // and a traffic class, which is no header length
		copy(p[8:], source)
		copy(p[24:], destination)
	}
	binary.BigEndian.PutUint16(p[header:], from.Port())
	binary.BigEndian.PutUint16(p[header+2:], to.Port())
	p[header+13] = 0x02
	return p
}

// pairs are a connection in each family, as the steering may be told of it and as
// its packets are.
var pairs = []struct{ name, from, to, packetFrom, packetTo string }{
	{"IPv4", "127.0.0.1:40000", "127.0.0.1:80", "127.0.0.1:40000", "127.0.0.1:80"},
	{"IPv4 elsewhere", "192.0.2.1:1", "198.51.100.7:65535", "192.0.2.1:1", "198.51.100.7:65535"},
	{"IPv6", "[::1]:40000", "[::1]:80", "[::1]:40000", "[::1]:80"},
	{"IPv6 elsewhere", "[2001:db8::1:2]:65535", "[2001:db8:7::1]:1", "[2001:db8::1:2]:65535", "[2001:db8:7::1]:1"},
	{"IPv6 with a zone", "[fe80::1%lo]:40000", "[fe80::1%lo]:80", "[fe80::1]:40000", "[fe80::1]:80"},
	{"mapped", "[::ffff:127.0.0.1]:40000", "[::ffff:127.0.0.1]:80", "127.0.0.1:40000", "127.0.0.1:80"},
}

func TestProgramTo(t *testing.T) {
	t.Parallel()
	for place := range 3 {
		p := steering{to: []int{place}}.program()
		for _, pair := range pairs {
			packet := syn(netip.MustParseAddrPort(pair.packetFrom), netip.MustParseAddrPort(pair.packetTo), 0)
			if got := run(t, p, packet, 0); got != uint32(place) {
				t.Errorf("%s goes to %d, want %d", pair.name, got, place)
			}
		}
	}
}

// TestProgramAmong has connections go to several places, each to one of them as often
// as to another.
func TestProgramAmong(t *testing.T) {
	t.Parallel()
	packet := syn(netip.MustParseAddrPort("127.0.0.1:40000"), netip.MustParseAddrPort("127.0.0.1:80"), 0)
	long := make([]int, 300)
	for i := range long {
		long[i] = 2*i + 1
	}
	for _, places := range [][]int{{5, 1}, {1, 2, 3}, {9, 4, 7, 2}, long} {
		for name, p := range map[string][]unix.SockFilter{
			"all":         steering{to: places}.program(),
			"all canary":  steering{to: []int{77}, canary: places, share: 1}.program(),
			"canary":      steering{to: []int{77}, canary: places, share: 0.5}.program(),
			"not canary":  steering{to: places, canary: long, share: 0.5}.program(),
			"for a probe": steering{to: places, probes: []probe{{netip.MustParseAddrPort("[::1]:1"), netip.MustParseAddrPort("[::1]:2"), 99}}}.program(),
		} {
			for random := range uint32(2 * len(places)) {
				if name == "not canary" {
					random += 1 << 31
				}
				if got, want := run(t, p, packet, random), places[int(random)%len(places)]; got != uint32(want) {
					t.Errorf("%s of %v: the random number %d goes to %d, want %d", name, places, random, got, want)
				}
			}
		}
	}
}

// TestProgramProbe changes one thing after the other of a probe's packet.
func TestProgramProbe(t *testing.T) {
	t.Parallel()
	const target, place, canary = 5, 7, 9
	for _, pair := range pairs {
		from, to := netip.MustParseAddrPort(pair.packetFrom), netip.MustParseAddrPort(pair.packetTo)
		other := netip.MustParseAddrPort("[2001:db8::99]:99")
		if from.Addr().Is4() {
			other = netip.MustParseAddrPort("192.0.2.99:99")
		}
		at := probe{netip.MustParseAddrPort(pair.from), netip.MustParseAddrPort(pair.to), place}
		decoys := []probe{{netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.1:2"), 3}, {netip.MustParseAddrPort("[::2]:1"), netip.MustParseAddrPort("[::2]:2"), 4}}
		for name, s := range map[string]steering{
			"alone":        {to: []int{target}, probes: []probe{at}},
			"first":        {to: []int{target}, probes: append([]probe{at}, decoys...)},
			"last":         {to: []int{target}, probes: append(decoys[:2:2], at)},
			"and a canary": {to: []int{target}, canary: []int{canary}, share: 1, probes: []probe{at}},
		} {
			rest := uint32(target)
			if s.share > 0 {
				rest = canary
			}
			p := s.program()
			expect := func(what string, packet []byte, want uint32) {
				t.Helper()
				if got := run(t, p, packet, 0); got != want {
					t.Errorf("%s, %s: %s goes to %d, want %d", pair.name, name, what, got, want)
				}
			}
			for options := range 11 {
				expect(fmt.Sprintf("with %d words of options", options), syn(from, to, options), place)
			}
			expect("from another port", syn(netip.AddrPortFrom(from.Addr(), from.Port()^1), to, 0), rest)
			expect("from a port that differs in its first byte", syn(netip.AddrPortFrom(from.Addr(), from.Port()^0x100), to, 0), rest)
			expect("from another address", syn(netip.AddrPortFrom(other.Addr(), from.Port()), to, 0), rest)
			expect("to another address", syn(from, netip.AddrPortFrom(other.Addr(), to.Port()), 0), rest)
			packet := syn(from, to, 0)
			packet[0] ^= 0x20 // 4 becomes 6
			expect("of the other version", packet, rest)
			// Each byte of both addresses counts.
			begin, end := 8, 40
			if from.Addr().Is4() {
				begin, end = 12, 20
			}
			for i := begin; i < end; i++ {
				packet := syn(from, to, 0)
				packet[i] ^= 0x10
				expect(fmt.Sprintf("with byte %d changed", i), packet, rest)
			}
		}
	}
}

func TestProgramShare(t *testing.T) {
	t.Parallel()
	packet := syn(netip.MustParseAddrPort("127.0.0.1:40000"), netip.MustParseAddrPort("127.0.0.1:80"), 0)
	for _, test := range []struct {
		share float64
		below uint32 // random numbers below this go to the canary
	}{
		{0.5, 1 << 31}, {0.25, 1 << 30}, {0.05, 214748365}, {0.005, 21474836}, {1.0 / (1 << 32), 1},
	} {
		p := steering{to: []int{3}, canary: []int{4}, share: test.share}.program()
		for random, want := range map[uint32]uint32{0: 4, test.below - 1: 4, test.below: 3, math.MaxUint32: 3} {
			if got := run(t, p, packet, random); got != want {
				t.Errorf("with a share of %v the random number %d goes to %d, want %d", test.share, random, got, want)
			}
		}
	}
	for share, want := range map[float64]uint32{0: 3, -1: 3, math.NaN(): 3, 1: 4, 2: 4, math.Inf(1): 4} {
		p := steering{to: []int{3}, canary: []int{4}, share: share}.program()
		for _, random := range []uint32{0, 1, math.MaxUint32} {
			if got := run(t, p, packet, random); got != want {
				t.Errorf("with a share of %v the random number %d goes to %d, want %d", share, random, got, want)
			}
		}
	}
}

// TestProbeInTheKernel has packets of every kind sorted by the kernel: from ports
// that the steering knows of, with and without options in the IP header.
func TestProbeInTheKernel(t *testing.T) {
	t.Parallel()
	for _, spec := range steeredSpecs {
		s := mustSteer(t, spec)
		serve(t, s, 1, 0)
		serve(t, s, 2, 0)
		for _, address := range addressesOf(s) {
			to := netip.MustParseAddrPort(address)
			for _, options := range []string{"", "\x01\x01\x01\x01", "\x44\x24\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"} {
				if options != "" && !to.Addr().Is4() {
					continue
				}
				for _, known := range []bool{true, false} {
					fd := boundClient(t, to.Addr(), options)
					sa, err := unix.Getsockname(fd.Raw())
					must(t, err)
					pc := &probeConn{gen: 2, from: netip.MustParseAddrPort(addressOf(sa)), to: to}
					want := 1
					if known {
						want = 2
						s.mu.Lock()
						s.dialing = append(s.dialing, pc)
						err := s.steer()
						s.mu.Unlock()
						must(t, err)
					}
					c := connectFrom(t, fd, to)
					if gen, err := askOn(c); gen != want || err != nil {
						t.Errorf("%s with options %x, known: %v: answered by %d (%v), want %d", address, options, known, gen, err, want)
					}
					c.Close()
					s.undial(pc)
				}
			}
		}
	}
}

// boundClient returns a socket with a port of its own on ip and with options in
// its IP headers.
func boundClient(t *testing.T, ip netip.Addr, options string) *FD {
	t.Helper()
	sa, family, err := target{addr: netip.AddrPortFrom(ip, 0)}.sockaddr()
	must(t, err)
	fd, err := Spec{Network: TCP}.newSocket(family)
	must(t, err)
	t.Cleanup(func() { fd.Close() })
	if options != "" {
		must(t, unix.SetsockoptString(fd.Raw(), unix.IPPROTO_IP, unix.IP_OPTIONS, options))
	}
	must(t, unix.Bind(fd.Raw(), sa))
	return fd
}

// connectFrom connects a bound socket, which it takes.
func connectFrom(t *testing.T, fd *FD, to netip.AddrPort) net.Conn {
	t.Helper()
	sa, _, err := target{addr: to}.sockaddr()
	must(t, err, unix.Connect(fd.Raw(), sa))
	f := os.NewFile(uintptr(fd.Disown()), "client")
	defer f.Close()
	c, err := net.FileConn(f)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}
