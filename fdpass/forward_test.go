package fdpass

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// mirror sends the generation's number and then everything back that comes.
func mirror(gen int) func(net.Conn) {
	return func(c net.Conn) {
		c.SetDeadline(time.Now().Add(deadline))
		fmt.Fprintf(c, "%d ", gen)
		io.Copy(c, c)
	}
}

// A straggler is a client that has connected to a generation which does not
// accept any more.
type straggler struct {
	net.Conn
	kind    string
	payload []byte // all that it sends
	rest    []byte // what it has not sent yet; nil where it has sent its end, too
}

// stragglers connects clients of every kind, one of which has a large payload.
func stragglers(t *testing.T, s Socket, large int) (all []*straggler) {
	t.Helper()
	for i, address := range addressesOf(s) {
		for kind, size := range map[string]int{"silent": 100, "with a request": 100, "half-closed": 100, "large": large, "empty and half-closed": 0} {
			c, err := net.DialTimeout("tcp", address, deadline)
			must(t, err)
			t.Cleanup(func() { c.Close() })
			payload := bytes.Repeat([]byte(fmt.Sprintf("%d %-13.13s|", i, kind)), size/16)
			sg := &straggler{c, kind, payload, payload}
			switch kind {
			case "with a request":
				sg.rest = payload[50:]
				_, err = c.Write(payload[:50])
			case "half-closed", "empty and half-closed":
				sg.rest = nil
				_, err = c.Write(payload)
				must(t, c.(*net.TCPConn).CloseWrite())
			}
			must(t, err)
			all = append(all, sg)
		}
	}
	return all
}

// finish sends what was not sent yet and expects the generation to send
// everything back, and then an orderly end.
func (sg *straggler) finish(t *testing.T, gen int) {
	t.Helper()
	sg.SetDeadline(time.Now().Add(deadline))
	sent := make(chan error, 1)
	go func() {
		if sg.rest == nil {
			sent <- nil
			return
		}
		_, err := sg.Write(sg.rest)
		sent <- errors.Join(err, sg.Conn.(*net.TCPConn).CloseWrite())
	}()
	got, err := io.ReadAll(sg)
	if want := fmt.Appendf(nil, "%d %s", gen, sg.payload); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: got %d bytes (%.20q), %v; want %d (%.20q)", sg.kind, len(got), got, err, len(want), want)
	}
	if err := <-sent; err != nil {
		t.Errorf("%s: %v", sg.kind, err)
	}
}

// TestStragglers lets connections wait in the seat of a generation that has
// stopped accepting. They are served by the next one, byte for byte.
func TestStragglers(t *testing.T) {
	t.Parallel()
	for _, spec := range steeredSpecs {
		for _, forward := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s forward=%v", spec, forward), func(t *testing.T) {
				t.Parallel()
				testStragglers(t, spec, forward, 256<<10)
			})
		}
	}
	t.Run("nonblocking", func(t *testing.T) {
		t.Parallel()
		testStragglers(t, "tcp://127.0.0.1:0?nonblocking", true, 8<<20) // more than any buffer takes
	})
}

func testStragglers(t *testing.T, spec string, forward bool, large int) {
	s := mustSteer(t, spec)
	serve(t, s, 1, 0).stop()
	all := stragglers(t, s, large)
	serveWith(t, s, 2, 0, mirror(2))
	must(t, s.Cutover(2))
	expectSeats(t, s, Seat{1, 0, len(all)}, Seat{2, 1, 0})
	if forward {
		must(t, s.Forward(1), s.Forward(1))
		eventually(t, "all were passed on", func() bool { return mustStats(t, s).Forwarded == len(all) })
	}
	must(t, s.Leave(1))
	for _, sg := range all {
		sg.finish(t, 2)
	}
	expectSeats(t, s, Seat{2, 1, 0})
	if st := mustStats(t, s); st.Forwarded != len(all) || st.Lost != 0 {
		t.Errorf("after %d stragglers: %+v", len(all), st)
	}
}

// TestStragglersOfANewOne steers away from a generation that has crashed after
// its cutover, and from one that had a share.
func TestStragglersOfANewOne(t *testing.T) {
	t.Parallel()
	for _, turn := range []func(s Socket) error{
		func(s Socket) error { return s.Cutover(2) },
		func(s Socket) error { return s.Share(2, 1) },
	} {
		s := mustSteer(t, "tcp://:0")
		serveWith(t, s, 1, 0, mirror(1))
		serve(t, s, 2, 0).stop()
		must(t, turn(s))
		all := stragglers(t, s, 256<<10)
		must(t, s.Leave(2))
		for _, sg := range all {
			sg.finish(t, 1)
		}
		if st := mustStats(t, s); st.Forwarded != len(all) || st.Lost != 0 {
			t.Errorf("after %d stragglers: %+v", len(all), st)
		}
	}
}

// deferred connects clients whose handshake is over for them, and not for the
// socket, which has the option defer-accept: it is once they send.
func deferred(t *testing.T, s Socket, n int) (clients []net.Conn) {
	t.Helper()
	addresses := addressesOf(s)
	for i := range n {
		c, err := net.DialTimeout("tcp", addresses[i%len(addresses)], deadline)
		must(t, err)
		t.Cleanup(func() { c.Close() })
		clients = append(clients, c)
	}
	return clients
}

// TestForwardBesideAccept has a process of the old generation accept while its
// connections are passed on: each is served, by one of the two.
func TestForwardBesideAccept(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"", "&nonblocking"} {
		s := mustSteer(t, "tcp://:0?defer-accept=30s"+option)
		one := serve(t, s, 1, 0)
		serve(t, s, 2, 0)
		const n = 200
		clients := deferred(t, s, n)
		must(t, s.Cutover(2), s.Forward(1))
		var by [3]atomic.Int64
		var wg sync.WaitGroup
		for _, c := range clients {
			wg.Add(1)
			go func() {
				defer wg.Done()
				gen, err := askOn(c)
				if err != nil || gen != 1 && gen != 2 {
					t.Errorf("answered by %d, %v", gen, err)
					return
				}
				by[gen].Add(1)
				c.Close()
			}()
		}
		wg.Wait()
		must(t, s.Leave(1))
		<-one.done // its accept(2) has ended
		st := mustStats(t, s)
		if by[1].Load() != one.taken.Load() || by[2].Load() != int64(st.Forwarded) || st.Lost != 0 {
			t.Errorf("%d were answered by 1, which accepted %d, and %d by 2; %+v", by[1].Load(), one.taken.Load(), by[2].Load(), st)
		}
		expectFrom(t, addressesOf(s)[0], 20, 2)
	}
}

// TestLeaveWaitsForHandshakes has clients for which the connection is open while
// the old generation leaves, and who send only then.
func TestLeaveWaitsForHandshakes(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(s Socket) error{
		"the old one":            func(s Socket) error { return errors.Join(s.Cutover(2), s.Leave(1)) },
		"without a cutover":      func(s Socket) error { return s.Leave(1) },
		"for a third generation": func(s Socket) error { s.Cutover(2); fd, err := s.Join(3, 0); fd.Close(); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mustSteer(t, "tcp://:0?defer-accept=30s")
			s.forwarder.patience = deadline
			serve(t, s, 1, 0).stop()
			serve(t, s, 2, 0)
			clients := deferred(t, s, 20)
			left := make(chan error, 1)
			go func() { left <- leave(s) }()
			eventually(t, "the seat leaves", func() bool {
				if !s.mu.TryLock() {
					return true
				}
				s.mu.Unlock()
				return false
			})
			// Longer than it takes where nothing is on its way.
			select {
			case err := <-left:
				t.Errorf("the seat has left with handshakes under way, %v", err)
				left <- nil
			case <-time.After(50 * settleLooks * leaveInterval):
			}
			for _, c := range clients {
				if gen, err := askOn(c); gen != 2 || err != nil {
					t.Errorf("answered by %d, %v", gen, err)
				}
				c.Close()
			}
			must(t, <-left)
			if st := mustStats(t, s); st.Forwarded != len(clients) || st.Lost != 0 {
				t.Errorf("after %d stragglers: %+v", len(clients), st)
			}
		})
	}
}

// TestHeir lets connections wait in the seat of a generation that has crashed.
func TestHeir(t *testing.T) {
	t.Parallel()
	for _, spec := range steeredSpecs {
		s := mustSteer(t, spec)
		serve(t, s, 1, 0).stop()
		all := stragglers(t, s, 256<<10)
		heir := serveWith(t, s, 2, 1, mirror(2))
		for _, sg := range all {
			sg.finish(t, 2)
		}
		heir.stop()
		// With another generation beside it, and where it has left for want of one.
		serve(t, s, 3, 0)
		all = stragglers(t, s, 256<<10)
		must(t, s.Leave(3), s.Leave(2))
		expectSeats(t, s, Seat{0, 1, len(all)})
		all = append(all, stragglers(t, s, 256<<10)...)
		serveWith(t, s, 4, 0, mirror(4))
		for _, sg := range all {
			sg.finish(t, 4)
		}
		expectSeats(t, s, Seat{4, 1, 0})
		if st := mustStats(t, s); st.Forwarded != 0 || st.Lost != 0 || st.Queue != 0 {
			t.Errorf("at the end %+v", st)
		}
	}
}

// TestJoinAgain gives a generation the seat that it has.
func TestJoinAgain(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0")
	for range 3 {
		join(t, s)
	}
	expectSeats(t, s, Seat{1, 1, 0})
}

// TestForwardEndsInAQueue takes the live generation away while connections of the
// older one are passed on to it. They go round in no circle, and wait for the
// next one.
func TestForwardEndsInAQueue(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0")
	serve(t, s, 1, 0).stop()
	serve(t, s, 2, 0).stop()
	must(t, s.Cutover(2), s.Forward(1))
	for _, turn := range []func() error{
		func() error { return s.Cutover(1) },
		func() error { return s.Share(1, 0.5) },
	} {
		if err := turn(); err == nil {
			t.Error("connections are sent to a generation that was told to stop")
		}
	}
	all := stragglers(t, s, 256<<10)
	must(t, s.Leave(2))
	all = append(all, stragglers(t, s, 256<<10)...)
	expectSeats(t, s, Seat{1, 0, 0}, Seat{0, 1, len(all)})
	serveWith(t, s, 3, 1, mirror(3)) // no heir: 1 was told to stop
	for _, sg := range all {
		sg.finish(t, 3)
	}
	expectSeats(t, s, Seat{1, 0, 0}, Seat{3, 1, 0})
	must(t, s.Leave(1))
	expectSeats(t, s, Seat{3, 1, 0})
	if st := mustStats(t, s); st.Forwarded != 0 || st.Lost != 0 {
		t.Errorf("at the end %+v", st)
	}
}

// TestForwardTellsOfResets has either side break a relayed connection off, which
// the other one must not take for its orderly end.
func TestForwardTellsOfResets(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0")
	serve(t, s, 1, 0).stop()
	seen := make(chan error, 1)
	serveWith(t, s, 2, 0, func(c net.Conn) {
		c.SetDeadline(time.Now().Add(deadline))
		fmt.Fprint(c, "half of it")
		first := make([]byte, 1)
		if io.ReadFull(c, first); first[0] == 'r' {
			c.(*net.TCPConn).SetLinger(0)
			return
		}
		_, err := io.Copy(io.Discard, c)
		seen <- err
	})
	var clients []net.Conn
	for range 2 {
		clients = append(clients, dialText(t, s.Addr()))
	}
	must(t, s.Cutover(2), s.Leave(1))
	for i, c := range clients {
		c.SetDeadline(time.Now().Add(deadline))
		half := make([]byte, len("half of it"))
		_, err := io.ReadFull(c, half)
		must(t, err)
		if i == 0 {
			_, err := c.Write([]byte("r"))
			must(t, err)
			if rest, err := io.ReadAll(c); !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("after the service's reset the client reads %q, %v", rest, err)
			}
		} else {
			_, err := c.Write([]byte("x"))
			must(t, err, c.(*net.TCPConn).SetLinger(0), c.Close())
			if err := <-seen; !errors.Is(err, unix.ECONNRESET) {
				t.Errorf("after the client's reset the service reads %v", err)
			}
		}
	}
}

// TestRelayEarlyAnswer has a service that has answered and closed without reading
// what the client sent: the answer arrives all the same, and then a reset.
func TestRelayEarlyAnswer(t *testing.T) {
	t.Parallel()
	for range 100 {
		client, fromClient := connected(t)
		toServer, server := connected(t)
		for _, c := range []net.Conn{client, toServer} {
			_, err := c.Write([]byte("a request"))
			must(t, err)
		}
		eventually(t, "the request arrived", func() bool { return unreadOf(t, server) == len("a request") })
		_, err := server.Write([]byte("too large"))
		must(t, err, server.Close())
		relayed := make(chan struct{})
		go func() {
			defer close(relayed)
			(&relay{client: fromClient, server: toServer}).run()
			fromClient.Close()
			toServer.Close()
		}()
		client.SetDeadline(time.Now().Add(deadline))
		got, err := io.ReadAll(client)
		if string(got) != "too large" || !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("the client reads %q, %v", got, err)
		}
		client.Close()
		<-relayed
	}
}

// connected returns both ends of a connection.
func connected(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	one, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	other, err := l.Accept()
	must(t, err)
	t.Cleanup(func() { errors.Join(one.Close(), other.Close()) })
	return one.(*net.TCPConn), other.(*net.TCPConn)
}

// unreadOf returns how many bytes wait in a connection.
func unreadOf(t *testing.T, c *net.TCPConn) (n int) {
	t.Helper()
	raw, err := c.SyscallConn()
	must(t, err)
	must(t, raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCINQ) }), err)
	return n
}

// TestCloseCutsRelays closes a socket with relays whose service is silent, and
// one that has not even got its connection.
func TestCloseCutsRelays(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, "tcp://127.0.0.1:0?backlog=1")
	serve(t, s, 1, 0).stop()
	release := make(chan struct{})
	two := serveWith(t, s, 2, 0, func(net.Conn) { <-release })
	defer close(release)
	var clients []net.Conn
	for range 2 { // as many as there is room for
		clients = append(clients, dialText(t, s.Addr()))
	}
	must(t, clients[0].(*net.TCPConn).CloseWrite()) // it waits for the service alone
	must(t, s.Cutover(2), s.Forward(1))
	eventually(t, "both were accepted", func() bool { return two.taken.Load() == 2 })
	two.stop()
	must(t, s.Cutover(2))
	serve(t, s, 3, 0).stop() // takes the place of 1
	for range 2 {
		clients = append(clients, dialText(t, s.Addr()))
	}
	must(t, s.Cutover(3))
	for range 2 { // and fills the queue
		clients = append(clients, dialText(t, s.Addr()))
	}
	dropped := mustStats(t, s).Dropped
	must(t, s.Leave(2))
	eventually(t, "the relays' SYNs were dropped", func() bool { return mustStats(t, s).Dropped >= dropped+2 })
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		must(t, err)
	case <-time.After(deadline):
		t.Fatal("Close waits for its relays")
	}
	for i, c := range clients[:4] {
		c.SetDeadline(time.Now().Add(deadline))
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("client %d reads %d, %v", i, n, err)
		}
	}
}

// TestStragglerGone has clients break off while they wait in the seat of a generation
// that does not accept: their address cannot be had any more.
func TestStragglerGone(t *testing.T) {
	t.Parallel()
	s := mustSteer(t, steeredSpecs[0])
	serve(t, s, 1, 0).stop()
	const all = 20
	for range all {
		c, err := net.Dial("tcp", s.Addr()[len("tcp://"):])
		if err != nil {
			t.Fatal(err)
		}
		must(t, c.(*net.TCPConn).SetLinger(0), c.Close()) // with a reset
	}
	serveWith(t, s, 2, 0, mirror(2))
	must(t, s.Cutover(2), s.Forward(1))
	eventually(t, "all were looked at", func() bool {
		st := mustStats(t, s)
		return st.Forwarded+st.Lost == all
	})
	must(t, s.Leave(1))
}

// TestCircle has a forwarder take a connection that it has passed on itself.
func TestCircle(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f := newForwarder(slog.New(slog.DiscardHandler))
	defer f.close()
	f.address = func(net.Addr) string { return l.Addr().String() }
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for taken := range 100 {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := c.(*net.TCPConn).File()
		if err != nil {
			t.Fatal(err)
		}
		dup, err := unix.FcntlInt(raw.Fd(), unix.F_DUPFD_CLOEXEC, 3)
		must(t, err, raw.Close(), c.Close())
		f.take(NewFD(dup), nil)
		if f.lost.Load() > 0 {
			return
		}
		if taken > 10 {
			t.Fatalf("it went round %d times", taken)
		}
		eventually(t, "the next one, or an end", func() bool {
			waiting, err := readable(int(mustRaw(t, l)))
			return err == nil && waiting || f.lost.Load() > 0
		})
		if f.lost.Load() > 0 {
			return
		}
	}
}

func mustRaw(t *testing.T, l net.Listener) (raw uintptr) {
	t.Helper()
	c, err := l.(*net.TCPListener).SyscallConn()
	must(t, err, c.Control(func(fd uintptr) { raw = fd }))
	return raw
}
