package fdpass

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// retire starts Retire and returns where its result comes.
func retire(t *testing.T, ctx context.Context, s Socket) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		result <- s.Retire(ctx)
	}()
	t.Cleanup(func() { <-done })
	return result
}

// waitRetired waits for the result.
func waitRetired(t *testing.T, result <-chan error) error {
	t.Helper()
	select {
	case err := <-result:
		return err
	case <-time.After(deadline):
		t.Fatal("Retire does not return")
		return nil
	}
}

// tcpState returns the state of a TCP socket, as in tcp_states.h.
func tcpState(t *testing.T, fd *FD) uint8 {
	t.Helper()
	info, err := unix.GetsockoptTCPInfo(fd.Raw(), unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		t.Fatal(err)
	}
	return info.State
}

const tcpSynSent = 2

// keepsAway reports whether Retire has done something against new connections.
func keepsAway(t *testing.T, s Socket) bool {
	t.Helper()
	if st, ok := s.(*steered); ok {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.sink != nil || firstOfFilter(st.seats[0].fd.Raw()) != ""
	}
	sh, away := s.(*shared), false
	if err := sh.use(func(raw int) error {
		away = sh.sink != nil || firstOfFilter(raw) != ""
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return away
}

// openASink does what Retire does where no filter may be attached.
func openASink(t *testing.T, s Socket) {
	t.Helper()
	if st, ok := s.(*steered); ok {
		st.mu.Lock()
		defer st.mu.Unlock()
		st.retires = true
		var err error
		if st.sink, err = openSink(st.spec, st.endpoint); err == nil {
			err = st.steer()
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	sh := s.(*shared)
	if err := sh.use(sh.divert); err != nil {
		t.Fatal(err)
	}
}

// firstOfFilter returns the beginning of a socket's filter, up to a zero, or ""
// if it has none. SO_GET_FILTER has the number of SO_ATTACH_FILTER.
func firstOfFilter(raw int) string {
	filter, err := unix.GetsockoptString(raw, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER)
	if err != nil {
		return ""
	}
	return filter
}

// expectDropped connects many times, and expects each SYN to be dropped and
// none to be answered, with a reset or otherwise.
func expectDropped(t *testing.T, s Socket, addr string) {
	t.Helper()
	for range 50 {
		before := mustStats(t, s).Dropped
		syn := startConnect(t, addr)
		eventually(t, "the SYN was dropped", func() bool { return mustStats(t, s).Dropped > before })
		if state := tcpState(t, syn); state != tcpSynSent {
			t.Errorf("%s: the client of a dropped SYN is in state %d", addr, state)
		}
		syn.Close()
	}
}

// TestRetireTCP retires listeners of each family with connections in the
// queue. New SYNs get neither a connection nor a reset; all that waited is
// served, both ways and in bulk, after the filter; then the port is free.
func TestRetireTCP(t *testing.T) {
	t.Parallel()
	for spec, hosts := range map[string][]string{
		"tcp://127.0.0.1:0":    {"127.0.0.1"},
		"tcp4://:0":            {"127.0.0.1"},
		"tcp6://[::1]:0":       {"[::1]"},
		"tcp://:0":             {"127.0.0.1", "[::1]"},
		"tcp6://:0?fastopen=5": {"[::1]"},
	} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			s := mustOpen(t, spec)
			port := s.Addr()[strings.LastIndexByte(s.Addr(), ':'):]
			service, err := s.Join(1, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer service.Close()
			var clients []net.Conn
			const each = 20
			for range each {
				for _, host := range hosts {
					clients = append(clients, dialText(t, "tcp://"+host+port))
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := retire(t, ctx, s)
			eventually(t, "connections are kept away", func() bool { return keepsAway(t, s) })
			for _, host := range hosts {
				expectDropped(t, s, "tcp://"+host+port)
			}
			select {
			case err := <-result:
				t.Fatalf("Retire returns with %d connections in the queue: %v", mustStats(t, s).Queue, err)
			default:
			}
			if waiting := mustStats(t, s).Queue; waiting != len(clients) {
				t.Fatalf("%d connections wait, not %d", waiting, len(clients))
			}
			// accept(2) is in the order of arrival.
			bulk := strings.Repeat("0123456789abcdef", 1<<14)
			for i, client := range clients {
				server := accept(t, service)
				text := "hello"
				if i%each == 0 {
					text = bulk
				}
				echo(t, client, server, text)
				// An orderly end, seen as such on both sides.
				client.(*net.TCPConn).CloseWrite()
				if n, err := server.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, unix.ECONNRESET) {
					t.Errorf("the server reads %d, %v after the client's end", n, err)
				}
				server.Close()
				if n, err := client.Read(make([]byte, 1)); n != 0 || errors.Is(err, unix.ECONNRESET) {
					t.Errorf("the client reads %d, %v after the server's end", n, err)
				}
			}
			if err := waitRetired(t, result); err != nil {
				t.Errorf("Retire: %v", err)
			}
			if _, err := s.Stats(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("after Retire: %v", err)
			}
			service.Close()
			if !refused(t, "tcp://"+hosts[0]+port) {
				t.Error("the port is not free")
			}
		})
	}
}

// TestRetireUnprivileged runs the tests of Retire as a user who may not attach a
// filter to a TCP socket, where the kernel wants CAP_NET_ADMIN for that.
func TestRetireUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		return // they are run so anyway
	}
	out := runHelper(t, true, "", "-test.v", "-test.run=^TestRetire(TCP|WaitsForHandshakes|EndsWithContext|NoWay)$")
	if n := strings.Count(out, "--- PASS: TestRetire"); n < 13 || strings.Contains(out, "--- FAIL") || strings.Contains(out, "--- SKIP") {
		t.Errorf("%d tests pass:\n%s", n, out)
	}
}

// TestRetireSink forces the way without a filter, whatever the privileges.
func TestRetireSink(t *testing.T) {
	t.Parallel()
	for spec, hosts := range map[string][]string{
		"tcp://127.0.0.1:0?device=lo": {"127.0.0.1"},
		"tcp://[::1]:0":               {"[::1]"},
		"tcp://:0?defer-accept=5s":    {"127.0.0.1", "[::1]"},
		"tcp6://:0":                   {"[::1]"},
		"tcp4://:0?freebind":          {"127.0.0.1"},
	} {
		s := mustOpen(t, spec)
		port := s.Addr()[strings.LastIndexByte(s.Addr(), ':'):]
		service := join(t, s)
		var clients []net.Conn
		for range 20 {
			for _, host := range hosts {
				clients = append(clients, dialText(t, "tcp://"+host+port))
			}
		}
		openASink(t, s)
		for _, host := range hosts {
			expectDropped(t, s, "tcp://"+host+port)
		}
		for _, client := range clients {
			if _, err := client.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		// Those with deferred accept come in any order: the first byte tells.
		for range clients {
			server := accept(t, service)
			if n, err := server.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Errorf("%s: read %d, %v", spec, n, err)
			}
			if _, err := server.Write([]byte("y")); err != nil {
				t.Error(err)
			}
		}
		for _, client := range clients {
			client.SetReadDeadline(time.Now().Add(deadline))
			if n, err := client.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Errorf("%s: the client reads %d, %v", spec, n, err)
			}
		}
		// Back to normal without it, as far as the generations are concerned.
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		c := dialText(t, "tcp://"+hosts[0]+port)
		if _, err := c.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		accept(t, service)
	}
}

// TestRetireNoWay has a socket that shares its address, where new connections
// can be kept away with a filter only: without one it retires all the same.
func TestRetireNoWay(t *testing.T) {
	t.Parallel()
	var log logBuffer
	all := mustOpenAll(t, OpenOptions{Log: log.logger()}, "a=tcp://127.0.0.1:0?reuseport")
	s := all[0].Socket
	other := mustOpen(t, s.Addr()+"?reuseport") // not in its group any more would be too late
	var filtered bool
	if err := s.(*shared).use(func(raw int) error {
		if _, err := openSink(s.(*shared).spec, s.(*shared).endpoint); err == nil {
			t.Error("a sink takes the connections of others")
		}
		filtered = dropSYN(raw) == nil
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.Retire(t.Context()); err != nil {
		t.Error(err)
	}
	if warned := strings.Contains(log.String(), "cannot be kept away"); warned == filtered {
		t.Errorf("with a filter: %v; the log says %q", filtered, log.String())
	}
	echo(t, dialText(t, other.Addr()), accept(t, join(t, other)), "hello")
}

// TestFilterIsInherited shows why the filter has to pass everything else: the
// connections that are accepted after it have it too.
func TestFilterIsInherited(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, "tcp://127.0.0.1:0?defer-accept=5s")
	service := join(t, s)
	client := dialText(t, s.Addr())
	if n, err := openHandshakes(service.Raw()); n != 1 || err != nil {
		t.Fatalf("%d handshakes, %v; want the one that waits for data", n, err)
	}
	if err := dropSYN(service.Raw()); errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
		t.Skip("this kernel wants CAP_NET_ADMIN for a filter on a TCP socket; TestRetireTCP goes the other way")
	} else if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	server := accept(t, service)
	raw, err := server.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var filter string
	if err := raw.Control(func(fd uintptr) { filter = firstOfFilter(int(fd)) }); err != nil {
		t.Fatal(err)
	}
	if want := string(rune(synFilter()[0].Code)); filter != want {
		t.Errorf("the accepted connection has the filter %q; want that of the listener, %q", filter, want)
	}
	server.Read(make([]byte, 1))
	echo(t, client, server, "hello")
}

// TestRetireWaitsForHandshakes has a handshake that is not over when the
// listener retires: TCP_DEFER_ACCEPT keeps it open until data comes.
func TestRetireWaitsForHandshakes(t *testing.T) {
	t.Parallel()
	for spec, host := range map[string]string{
		"tcp://127.0.0.1:0?defer-accept=5s": "127.0.0.1",
		"tcp6://[::1]:0?defer-accept=5s":    "[::1]",
		"tcp://:0?defer-accept=5s":          "127.0.0.1",
		"tcp://[::]:0?defer-accept=5s":      "[::1]",
	} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			s := mustOpen(t, spec)
			port := s.Addr()[strings.LastIndexByte(s.Addr(), ':'):]
			service := join(t, s)
			client := dialText(t, "tcp://"+host+port)
			if st := mustStats(t, s); st.Queue != 0 {
				t.Fatalf("the connection is in the queue: %+v", st)
			}
			result := retire(t, t.Context(), s)
			// Longer than it takes for an empty queue, so it is the handshake that
			// is waited for.
			select {
			case err := <-result:
				t.Fatalf("Retire returns with a handshake open: %v", err)
			case <-time.After(5 * retireLooks * retireInterval):
			}
			if _, err := client.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			server := accept(t, service)
			server.Read(make([]byte, 1))
			echo(t, client, server, "hello")
			if err := waitRetired(t, result); err != nil {
				t.Errorf("Retire: %v", err)
			}
		})
	}
}

func TestRetireEndsWithContext(t *testing.T) {
	t.Parallel()
	path := sockPath(t)
	for spec, left := range map[string]string{
		"a=tcp://127.0.0.1:0":       "2 connections",
		"a=unix://" + path:          "2 connections",
		"a=unix:" + abstract(t):     "2 connections",
		"a=udp://127.0.0.1:0":       "datagrams",
		"a=unixgram:" + sockPath(t): "datagrams",
	} {
		s := mustOpen(t, spec)
		kind := mustParse(t, s.Addr())
		for range 2 {
			switch {
			case kind.udp():
				sendUDP(t, s, "hello")
			case kind.Network == UnixGram:
				if err := unix.Sendto(unixClient(t, s.Addr()).Raw(), []byte("hello"), 0, nil); err != nil {
					t.Fatal(err)
				}
			default:
				connect(t, s.Addr())
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		result := retire(t, ctx, s)
		cancel()
		err := waitRetired(t, result)
		want := fmt.Sprintf("socket a (%s) was closed while %s waited in it: context canceled", s.Addr(), left)
		if !errors.Is(err, context.Canceled) || err.Error() != want {
			t.Errorf("Retire: %v\nwant    %s", err, want)
		}
		if _, err := s.Stats(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("after Retire: %v", err)
		}
	}
	if exists(path) {
		t.Error("the file is left")
	}
}

// TestRetireUnix takes the file away at once and closes the socket once what
// waits has been accepted.
func TestRetireUnix(t *testing.T) {
	t.Parallel()
	for _, network := range []string{Unix, UnixPacket} {
		path := sockPath(t)
		s := mustOpen(t, network+"://"+path)
		service := join(t, s)
		for range 3 {
			connect(t, s.Addr())
		}
		result := retire(t, t.Context(), s)
		eventually(t, "the file is gone", func() bool { return !exists(path) })
		if _, err := connectUnix(t, s.Addr()); !errors.Is(err, unix.ENOENT) {
			t.Errorf("%s: connect while it retires: %v", network, err)
		}
		for range 3 {
			raw, _, err := unix.Accept4(service.Raw(), unix.SOCK_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(raw)
		}
		if err := waitRetired(t, result); err != nil {
			t.Errorf("%s: Retire: %v", network, err)
		}
	}
}

// TestRetireDatagrams leaves a datagram socket to the generations that have it.
func TestRetireDatagrams(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, "udp://127.0.0.1:0")
	service := join(t, s)
	sendUDP(t, s, "before")
	result := retire(t, t.Context(), s)
	if got := receive(t, service); got != "before" {
		t.Errorf("got %q", got)
	}
	if err := waitRetired(t, result); err != nil {
		t.Errorf("Retire: %v", err)
	}
	sendUDP(t, s, "after")
	if got := receive(t, service); got != "after" {
		t.Errorf("got %q", got)
	}
}
