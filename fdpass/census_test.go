package fdpass

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// diagMessage makes a struct inet_diag_msg with a struct tcp_info, of which the
// first size bytes are told.
func diagMessage(family, state uint8, local netip.AddrPort, unread uint32, info unix.TCPInfo, size int) []byte {
	b := make([]byte, inetReplySize)
	b[0], b[1] = family, state
	binary.BigEndian.PutUint16(b[4:], local.Port())
	copy(b[8:], local.Addr().AsSlice())
	peer := peerOf(local)
	binary.BigEndian.PutUint16(b[6:], peer.Port())
	copy(b[24:], peer.Addr().AsSlice())
	native.PutUint32(b[44:], 0x11)
	native.PutUint32(b[48:], 0x22)
	native.PutUint32(b[56:], unread)
	native.PutUint32(b[68:], 4711)
	other := []byte{5, 0, 1, 0, 9, 0, 0, 0} // an attribute of one byte, padded
	native.PutUint16(other, 5)
	native.PutUint16(other[2:], 1)
	b = append(b, other...)
	attr := make([]byte, unix.SizeofRtAttr)
	native.PutUint16(attr, uint16(unix.SizeofRtAttr+size))
	native.PutUint16(attr[2:], diagInfo)
	b = append(b, attr...)
	return append(b, unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info))[:size]...)
}

// peerOf returns the other end that diagMessage makes.
func peerOf(local netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(local.Addr().Next(), local.Port()+1)
}

func TestReadConnection(t *testing.T) {
	t.Parallel()
	info := unix.TCPInfo{Last_data_recv: 1500, Bytes_acked: 3, Bytes_received: 5, Bytes_sent: 7}
	whole := int(unsafe.Sizeof(info))
	upTo := func(offset uintptr) int { return int(offset) }
	local4, local6 := netip.MustParseAddrPort("127.0.0.1:80"), netip.MustParseAddrPort("[2001:db8::1]:443")
	tests := []struct {
		name    string
		message []byte
		want    connection
	}{
		{"IPv4", diagMessage(unix.AF_INET, tcpEstablished, local4, 9, info, whole), connection{local: local4, state: tcpEstablished, unread: 9, received: 5, sent: 7}},
		{"IPv6", diagMessage(unix.AF_INET6, tcpSynRecv, local6, 0, info, whole), connection{local: local6, state: tcpSynRecv, received: 5, sent: 7}},
		{"an end that is unread", diagMessage(unix.AF_INET, tcpCloseWait, local4, 1, info, whole), connection{local: local4, state: tcpCloseWait, received: 5, sent: 7}},
		{"an end behind unread bytes", diagMessage(unix.AF_INET, tcpCloseWait, local4, 4, info, whole), connection{local: local4, state: tcpCloseWait, unread: 3, received: 5, sent: 7}},
		{"an end that is read", diagMessage(unix.AF_INET, tcpCloseWait, local4, 0, info, whole), connection{local: local4, state: tcpCloseWait, received: 5, sent: 7}},
		{"Linux 4.18", diagMessage(unix.AF_INET, tcpEstablished, local4, 0, info, upTo(unsafe.Offsetof(info.Bytes_sent))), connection{local: local4, state: tcpEstablished, received: 5, sent: 3}},
		{"a newer kernel", append(diagMessage(unix.AF_INET, tcpEstablished, local4, 0, info, whole), 8, 0, 99, 0, 1, 2, 3, 4), connection{local: local4, state: tcpEstablished, received: 5, sent: 7}},
	}
	for _, test := range tests {
		test.want.peer = peerOf(test.want.local)
		test.want.cookie, test.want.inode, test.want.sinceRecv = 0x22_0000_0011, 4711, 1500*time.Millisecond
		if got, err := readConnection(test.message); err != nil || got != test.want {
			t.Errorf("%s: %+v, %v\nwant %+v", test.name, got, err, test.want)
		}
	}
	for n := range inetReplySize {
		if _, err := readConnection(tests[0].message[:n]); err == nil {
			t.Errorf("%d bytes pass for a reply", n)
		}
	}
}

func FuzzConnection(f *testing.F) {
	info := unix.TCPInfo{Last_data_recv: 1500, Bytes_acked: 3, Bytes_received: 5, Bytes_sent: 7}
	f.Add([]byte{})
	f.Add(make([]byte, inetReplySize))
	for _, size := range []int{0, 8, int(unsafe.Offsetof(info.Bytes_sent)), int(unsafe.Sizeof(info))} {
		message := diagMessage(unix.AF_INET, tcpEstablished, netip.MustParseAddrPort("127.0.0.1:80"), 9, info, size)
		f.Add(message)
		f.Add(message[:len(message)-1])
	}
	f.Add(diagMessage(unix.AF_INET6, tcpCloseWait, netip.MustParseAddrPort("[::ffff:127.0.0.1]:80"), 0, info, int(unsafe.Sizeof(info))))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		c, err := readConnection(b)
		if err == nil && (len(b) < inetReplySize || c.unread < 0 || c.sinceRecv < 0 || !c.local.IsValid() || !c.peer.IsValid()) {
			t.Errorf("%x is read as %+v", b, c)
		}
		if !bytes.Equal(b, before) {
			t.Error("the message was changed")
		}
	})
}

func TestReach(t *testing.T) {
	t.Parallel()
	for listener, want := range map[string]map[string]bool{
		"tcp://127.0.0.1:80":    {"127.0.0.1": true, "127.0.0.2": false, "::1": false, "::ffff:127.0.0.1": false},
		"tcp://0.0.0.0:80":      {"127.0.0.1": true, "192.0.2.1": true, "::1": false, "::ffff:127.0.0.1": false},
		"tcp://[::]:80":         {"127.0.0.1": false, "::1": true, "2001:db8::1": true, "::ffff:127.0.0.1": true},
		"tcp6://[::]:80":        {"::1": true, "2001:db8::1": true, "::ffff:127.0.0.1": false},
		"tcp://[::1]:80":        {"::1": true, "::2": false, "::ffff:127.0.0.1": false},
		"tcp://[fe80::1%lo]:80": {"fe80::1": true, "fe80::2": false},
	} {
		spec := mustParse(t, listener)
		at, err := endpoint{network: spec.Network, address: spec.Address}.reach()
		must(t, err)
		for local, want := range want {
			if got := at.takes(netip.AddrPortFrom(netip.MustParseAddr(local), 80)); got != want {
				t.Errorf("%s takes connections to %s: %v", listener, local, got)
			}
		}
	}
}

// TestCensus counts connections of each family that a process has accepted.
func TestCensus(t *testing.T) {
	t.Parallel()
	for _, spec := range append(steeredSpecs, "tcp://127.0.0.1:0?mode=shared") {
		s := mustOpen(t, spec)
		bound := []Bound{{Socket: s}}
		fd := join(t, s)
		inodes := make(map[uint64]bool)
		expect := func(want int) {
			t.Helper()
			c, err := TakeCensus(bound)
			must(t, err)
			if got := c.Count(s, inodes); got != want {
				t.Errorf("%s: %d connections, want %d", spec, got, want)
			}
		}
		inodes[0] = true // which no socket has
		want := 0
		for _, address := range addressesOf(s) {
			client := dialText(t, "tcp://"+address)
			accepted := func(want bool) {
				t.Helper()
				c, err := TakeCensus(bound)
				must(t, err)
				if c.Accepted(client) != want {
					t.Errorf("%s: accepted: %v", address, !want)
				}
			}
			expect(want) // it has no inode before it is accepted
			accepted(false)
			server := accept(t, fd)
			expect(want)
			accepted(true)
			inodes[inodeOf(t, server)] = true
			want++
			expect(want)
		}
		u := mustOpen(t, "unix:"+abstract(t))
		c, err := TakeCensus([]Bound{{Socket: u}})
		must(t, err)
		if got := c.Count(u, inodes); got != 0 {
			t.Errorf("%d connections of a unix socket", got)
		}
	}
}

func inodeOf(t *testing.T, c net.Conn) uint64 {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	must(t, err)
	var st unix.Stat_t
	must(t, raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) }), err)
	return st.Ino
}
