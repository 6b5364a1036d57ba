package fdpass

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func mustStats(t *testing.T, s Socket) Stats {
	t.Helper()
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestStatsListening(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"tcp://127.0.0.1:0", "tcp://[::1]:0", "tcp://:0", "unix://" + sockPath(t), abstract(t), "unixpacket://" + sockPath(t)} {
		spec = "a=" + strings.Replace(spec, "@", "unix:@", 1) + "?backlog=7"
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			s := mustOpen(t, spec)
			if st := mustStats(t, s); st != (Stats{QueueLimit: 7}) {
				t.Errorf("at first %+v", st)
			}
			for range 3 {
				connect(t, s.Addr())
			}
			if st := mustStats(t, s); st != (Stats{Queue: 3, QueueLimit: 7}) {
				t.Errorf("with three waiting %+v", st)
			}
			raw, _, err := unix.Accept4(join(t, s).Raw(), unix.SOCK_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			unix.Close(raw)
			if st := mustStats(t, s); st != (Stats{Queue: 2, QueueLimit: 7}) {
				t.Errorf("with one of them accepted %+v", st)
			}
		})
	}
}

// connect makes a connection that lasts until the end of the test.
func connect(t *testing.T, addr string) {
	t.Helper()
	if mustParse(t, addr).local() {
		unixClient(t, addr)
		return
	}
	dialText(t, addr)
}

// TestStatsDropped overflows an accept queue: with room for one, the kernel
// takes two and drops the SYN of the third.
func TestStatsDropped(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, "tcp://127.0.0.1:0?backlog=1")
	connect(t, s.Addr())
	connect(t, s.Addr())
	third := startConnect(t, s.Addr())
	defer third.Close()
	if st := mustStats(t, s); st.Queue != 2 || st.Dropped == 0 {
		t.Errorf("after three connections to a queue of one: %+v", st)
	}
}

// startConnect sends a SYN without waiting for what comes of it.
func startConnect(t *testing.T, addr string) *FD {
	t.Helper()
	h, err := mustParse(t, addr).hostPort()
	if err != nil {
		t.Fatal(err)
	}
	var sa unix.Sockaddr = &unix.SockaddrInet6{Port: int(h.port), Addr: h.ip.As16()}
	family := unix.AF_INET6
	if h.ip.Is4() {
		sa, family = &unix.SockaddrInet4{Port: int(h.port), Addr: h.ip.As4()}, unix.AF_INET
	}
	fd, err := Spec{Network: TCP, NonBlocking: true}.newSocket(family)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Connect(fd.Raw(), sa); err != unix.EINPROGRESS {
		fd.Close()
		t.Fatalf("connect: %v", err)
	}
	return fd
}

func TestStatsUDP(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"udp://127.0.0.1:0", "udp://[::1]:0"} {
		s := mustOpen(t, spec+"?rcvbuf=5000")
		if st := mustStats(t, s); st != (Stats{UnreadLimit: 10000}) {
			t.Errorf("at first %+v", st)
		}
		sendUDP(t, s, "hello")
		one := mustStats(t, s)
		if one.Unread < len("hello") || one.Dropped != 0 {
			t.Errorf("with one datagram %+v", one)
		}
		for range 50 {
			sendUDP(t, s, strings.Repeat("x", 500))
		}
		full := mustStats(t, s)
		if full.Unread <= one.Unread || full.Dropped == 0 {
			t.Errorf("with more than it can take %+v", full)
		}
		fd := join(t, s)
		for {
			if waiting, err := readable(fd.Raw()); err != nil || !waiting {
				break
			}
			receive(t, fd)
		}
		if st := mustStats(t, s); st.Unread != 0 || st.Dropped != full.Dropped {
			t.Errorf("with all read %+v", st)
		}
	}
}

func TestStatsUnixgram(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, "unixgram:"+abstract(t))
	client := unixClient(t, s.Addr())
	fd := join(t, s)
	for _, text := range []string{"", "hello", "hello, world"} {
		if st := mustStats(t, s); st != (Stats{UnreadLimit: Unknown}) {
			t.Errorf("with nothing there %+v", st)
		}
		if err := unix.Sendto(client.Raw(), []byte(text), 0, nil); err != nil {
			t.Fatal(err)
		}
		if st := mustStats(t, s); st != (Stats{Unread: max(1, len(text)), UnreadLimit: Unknown}) {
			t.Errorf("with %q there %+v", text, st)
		}
		if got := receive(t, fd); got != text {
			t.Errorf("got %q", got)
		}
	}
}

// TestStatsUnprivileged asks for what root may see anyway.
func TestStatsUnprivileged(t *testing.T) {
	uid := 65534
	if os.Geteuid() != 0 {
		uid = os.Geteuid()
	}
	if got, want := runHelper(t, true, "stats", "unix:"+abstract(t)+"?backlog=7"), fmt.Sprint(uid, 1, 7, nil); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestStatsAfterShutdown has a child shut the shared socket down for everybody.
func TestStatsAfterShutdown(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, "tcp://127.0.0.1:0")
	if err := unix.Shutdown(join(t, s).Raw(), unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
	if st := mustStats(t, s); st.Queue != Unknown || st.QueueLimit != Unknown {
		t.Errorf("got %+v", st)
	}
	if err := s.Retire(t.Context()); err != nil {
		t.Errorf("Retire: %v", err)
	}
}

func FuzzDiagReply(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, unixReplySize))
	// A reply as the kernel sends it: header, unix_diag_msg, RQLEN, NAME, VFS.
	reply := make([]byte, 16+unixReplySize)
	native.PutUint16(reply[4:], unix.SOCK_DIAG_BY_FAMILY)
	for _, a := range []struct {
		kind  uint16
		value []byte
	}{{attrRQ, []byte{3, 0, 0, 0, 7, 0, 0, 0}}, {attrName, []byte("/run/a\x00")}, {attrVFS, []byte{9, 0, 0, 0, 5, 0, 16, 0}}} {
		attr := make([]byte, 4, 16)
		native.PutUint16(attr, uint16(4+len(a.value)))
		native.PutUint16(attr[2:], a.kind)
		attr = append(attr, a.value...)
		reply = append(reply, attr...)
		reply = append(reply, make([]byte, align4(len(attr))-len(attr))...)
	}
	native.PutUint32(reply, uint32(len(reply)))
	f.Add(reply)
	f.Add(reply[:len(reply)-3])
	f.Fuzz(func(t *testing.T, b []byte) {
		done, err := readMessages(b, func(payload []byte) error {
			queue, limit, err := readUnixQueue(payload)
			if err != nil {
				return err
			}
			if queue < Unknown || limit < Unknown {
				t.Errorf("queue %d, limit %d", queue, limit)
			}
			_, err = isBoundTo(payload, fileID{unix.Mkdev(1, 5), 9}, "/run/a")
			return err
		})
		if done && err == errShortMessage {
			t.Errorf("both done and short: %x", b)
		}
	})
}

// TestDiagReply reads the reply that the fuzz target starts from.
func TestDiagReply(t *testing.T) {
	t.Parallel()
	payload := make([]byte, unixReplySize)
	add := func(kind uint16, value string) {
		attr := make([]byte, 4)
		native.PutUint16(attr, uint16(4+len(value)))
		native.PutUint16(attr[2:], kind)
		attr = append(attr, value...)
		payload = append(payload, append(attr, make([]byte, align4(len(attr))-len(attr))...)...)
	}
	add(attrName, "/run/a\x00")
	add(attrVFS, "\x09\x00\x00\x00\x05\x00\x10\x00") // inode 9, device 1:5
	add(attrRQ, "\x03\x00\x00\x00\x07\x00\x00\x00")
	if queue, limit, err := readUnixQueue(payload); queue != 3 || limit != 7 || err != nil {
		t.Errorf("queue %d, limit %d, %v", queue, limit, err)
	}
	for _, test := range []struct {
		file fileID
		path string
		want bool
	}{
		{fileID{unix.Mkdev(1, 5), 9}, "/other", true},
		{fileID{unix.Mkdev(1, 6), 9}, "/run/a", true}, // a file system with made-up devices
		{fileID{unix.Mkdev(1, 6), 9}, "/other", false},
		{fileID{unix.Mkdev(1, 5), 10}, "/run/a", false},
	} {
		if got, err := isBoundTo(payload, test.file, test.path); got != test.want || err != nil {
			t.Errorf("%+v %s: %v, %v", test.file, test.path, got, err)
		}
	}
	for n := range unixReplySize {
		if _, _, err := readUnixQueue(payload[:n]); err == nil {
			t.Errorf("%d bytes pass for a reply", n)
		}
	}
}
