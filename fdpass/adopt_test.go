package fdpass

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// adopted opens a socket that systemd has made with ReusePort=yes, and returns it
// and systemd's descriptor.
func adopted(t *testing.T, spec string, log *logBuffer) (*steered, *FD) {
	t.Helper()
	byName, order := passed(t, "web="+spec)
	all := mustOpenAll(t, OpenOptions{FromSystemd: byName, Log: log.logger()}, "a=systemd:web")
	s, ok := all[0].Socket.(*steered)
	if !ok {
		t.Fatalf("%s is shared; the log says %q", spec, log.String())
	}
	return s, order[0]
}

// TestAdoptSteered goes through five generations on a socket of systemd's, with
// each leave before or after the next one joins.
func TestAdoptSteered(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"127.0.0.1:0?reuseport", "tcp6://:0?reuseport", "tcp://:0?reuseport&backlog=7"} {
		for _, early := range []bool{true, false} {
			t.Run(fmt.Sprint(spec, early), func(t *testing.T) {
				t.Parallel()
				var log logBuffer
				option := ""
				if !early { // two generations may have one socket, where accept(2) may block for ever
					option = "&nonblocking"
				}
				s, own := adopted(t, spec+option, &log)
				expect := func(gen int) {
					t.Helper()
					for _, address := range addressesOf(s) {
						expectFrom(t, address, 20, gen)
					}
				}
				one := serve(t, s, 1, 0)
				expect(1)
				var two *service
				for gen := 2; gen <= 6; gen++ {
					next := serve(t, s, gen, 0)
					expect(gen - 1)
					must(t, s.Cutover(gen))
					expect(gen)
					if two != nil {
						two.stop()
					}
					one.stop()
					two = next
					if early {
						must(t, s.Leave(gen-1))
						expect(gen)
					}
				}
				if early == (log.String() != "") || strings.Count(log.String(), "two generations share a socket of systemd's") > 2 {
					t.Errorf("with early leaves %v the log says %q", early, log.String())
				}
				// It was never shut down, and is systemd's own again at the end.
				must(t, s.Close())
				if sockoptInt(t, own, unix.SOL_SOCKET, unix.SO_ACCEPTCONN) != 1 {
					t.Error("systemd's socket does not listen any more")
				}
			})
		}
	}
}

// TestAdoptedStragglers lets connections wait in systemd's socket, which no
// generation has any more, while another one serves.
func TestAdoptedStragglers(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"tcp://:0?reuseport", "127.0.0.1:0?reuseport&nonblocking"} {
		s, own := adopted(t, spec, new(logBuffer))
		serve(t, s, 1, 0).stop()
		all := stragglers(t, s, 256<<10)
		serveWith(t, s, 2, 0, mirror(2))
		must(t, s.Cutover(2), s.Forward(1), s.Leave(1))
		for _, sg := range all {
			sg.finish(t, 2)
		}
		expectSeats(t, s, Seat{0, 0, 0}, Seat{2, 1, 0})
		if st := mustStats(t, s); st.Forwarded != len(all) || st.Lost != 0 {
			t.Errorf("after %d stragglers: %+v", len(all), st)
		}
		if tv, err := unix.GetsockoptTimeval(own.Raw(), unix.SOL_SOCKET, unix.SO_RCVTIMEO); err != nil || *tv != (unix.Timeval{}) {
			t.Errorf("systemd's socket has a receive timeout of %+v, %v", tv, err)
		}
		// Then the other one leaves; what waits is for the next, in systemd's socket.
		must(t, s.Leave(2))
		all = stragglers(t, s, 256<<10)
		expectSeats(t, s, Seat{0, 1, len(all)})
		three := serveWith(t, s, 3, 2, mirror(3))
		for _, sg := range all {
			sg.finish(t, 3)
		}
		// At the end of all, new connections are left to systemd at once.
		three.stop()
		serve(t, s, 4, 0)
		must(t, s.Cutover(4), s.Leave(3), s.Cutover(0))
		client := dialText(t, "tcp://"+addressesOf(s)[0])
		expectSeats(t, s, Seat{0, 1, 1}, Seat{4, 0, 0})
		must(t, s.Leave(4), s.Close())
		echo(t, client, accept(t, own), "hello")
	}
}

// TestAdoptedOptions compares the socket of the second generation with the one of
// systemd's that it joins.
func TestAdoptedOptions(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		s, own := adopted(t, host+":0?reuseport&freebind&device=lo&backlog=7&defer-accept=3s&fastopen=5&nonblocking&rcvbuf=10000&sndbuf=12000", new(logBuffer))
		raw := own.Raw()
		v6 := host == "[::1]"
		type opt struct {
			name       string
			level, opt int
			value      int
		}
		set := []opt{ // what a .socket unit can say as well
			{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 123},
			{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 12},
			{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
			{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
			{"IP_TOS", unix.IPPROTO_IP, unix.IP_TOS, 0x10},
			{"SO_PRIORITY", unix.SOL_SOCKET, unix.SO_PRIORITY, 5},
			{"IP_TTL", unix.IPPROTO_IP, unix.IP_TTL, 33},
		}
		if v6 {
			set = append(set, opt{"IPV6_TCLASS", unix.IPPROTO_IPV6, unix.IPV6_TCLASS, 0x20}, opt{"IPV6_UNICAST_HOPS", unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, 34})
		}
		for _, o := range set {
			must(t, unix.SetsockoptInt(raw, o.level, o.opt, o.value))
		}
		must(t, unix.SetsockoptString(raw, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno"))
		join(t, s)
		second, err := s.Join(2, 0)
		must(t, err)
		defer second.Close()
		freebind := opt{"IP_FREEBIND", unix.IPPROTO_IP, unix.IP_FREEBIND, 1}
		if v6 {
			freebind = opt{"IPV6_FREEBIND", unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1}
		}
		for _, o := range append(set, freebind,
			opt{"SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF, 20000},
			opt{"SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF, 24000},
			opt{"TCP_DEFER_ACCEPT", unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 3},
			opt{"TCP_FASTOPEN", unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 5},
		) {
			if got := sockoptInt(t, second, o.level, o.opt); got != o.value {
				t.Errorf("%s: %s = %d, want %d", host, o.name, got, o.value)
			}
		}
		if got, err := unix.GetsockoptString(second.Raw(), unix.IPPROTO_TCP, unix.TCP_CONGESTION); err != nil || strings.Trim(got, "\x00") != "reno" {
			t.Errorf("%s: TCP_CONGESTION = %q, %v", host, got, err)
		}
		if got, err := unix.GetsockoptString(second.Raw(), unix.SOL_SOCKET, unix.SO_BINDTODEVICE); err != nil || got != "lo" {
			t.Errorf("%s: device %q, %v", host, got, err)
		}
		if flags, err := unix.FcntlInt(uintptr(second.Raw()), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
			t.Errorf("%s: flags %#x, %v", host, flags, err)
		}
		if _, limit, err := tcpQueue(second.Raw()); err != nil || limit != 7 {
			t.Errorf("%s: backlog %d, %v", host, limit, err)
		}
	}
}

// TestAdoptedDefaults has no option that systemd's own socket does not have: the
// size of a buffer that is set does not grow any more.
func TestAdoptedDefaults(t *testing.T) {
	t.Parallel()
	s, own := adopted(t, "127.0.0.1:0?reuseport", new(logBuffer))
	join(t, s)
	second, err := s.Join(2, 0)
	must(t, err)
	defer second.Close()
	for _, opt := range []int{unix.SO_BUF_LOCK, unix.SO_RCVBUF, unix.SO_SNDBUF, unix.SO_KEEPALIVE, unix.SO_MARK} {
		if a, b := sockoptInt(t, own, unix.SOL_SOCKET, opt), sockoptInt(t, second, unix.SOL_SOCKET, opt); a != b {
			t.Errorf("option %d is %d, and %d on systemd's", opt, b, a)
		}
	}
}

// TestAdoptShared has sockets of systemd's that cannot be steered: nobody is told
// of a plain one unless its mode was asked for.
func TestAdoptShared(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		byName, order := passed(t, "web=127.0.0.1:0?reuseport")
		must(t, unix.Fchown(order[0].Raw(), 65534, -1))
		expectShared(t, byName, "a=systemd:web", "it belongs to user 65534, and only that one's sockets can join it")
	}
	plain, _ := passed(t, "web=127.0.0.1:0", "gram=udp://127.0.0.1:0?reuseport", "path=unix://"+sockPath(t))
	expectShared(t, plain, "a=systemd:web", "")
	expectShared(t, plain, "a=systemd:web?mode=shared", "")
	expectShared(t, plain, "a=systemd:web?mode=steered", "it is a plain socket: its .socket unit does not say ReusePort=yes")
	for _, name := range []string{"gram", "path"} {
		expectShared(t, plain, "a=systemd:"+name, "")
		expectShared(t, plain, "a=systemd:"+name+"?mode=steered", "it is a plain socket: it is not tcp")
	}
	reuse, _ := passed(t, "web=127.0.0.1:0?reuseport")
	expectShared(t, reuse, "a=systemd:web?mode=shared", "")
	// Set after it listens it is of no use.
	late, order := passed(t, "web=127.0.0.1:0")
	must(t, reusePort.set(order[0].Raw()))
	expectShared(t, late, "a=systemd:web", "setsockopt SO_ATTACH_REUSEPORT_CBPF: invalid argument")
}

// expectShared opens a socket of systemd's, which is to be shared and working, with
// one line in the log that names the cause, or none.
func expectShared(t *testing.T, byName map[string][]*FD, spec, cause string) {
	t.Helper()
	var log logBuffer
	all, _, err := Open(mustParseAll(t, spec), OpenOptions{FromSystemd: byName, Log: log.logger()})
	must(t, err)
	s := all[0].Socket
	defer s.Close()
	want := fmt.Sprintf(`socket=a cause=%q`, cause)
	switch {
	case s.Mode() != Shared:
		t.Errorf("%s is %s", spec, s.Mode())
	case cause == "" && log.String() != "", cause != "" && (strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), want)):
		t.Errorf("%s: the log says\n%swant\n%s", spec, log.String(), want)
	}
	one, err := s.Join(1, 0)
	must(t, err)
	defer one.Close()
	if mustParse(t, s.Addr()).tcp() {
		echo(t, dialText(t, s.Addr()), accept(t, one), "hello")
	}
}

// TestAdoptedReconfigure changes the name, and nothing that the unit decides.
func TestAdoptedReconfigure(t *testing.T) {
	t.Parallel()
	s, _ := adopted(t, "127.0.0.1:0?reuseport&backlog=7", new(logBuffer))
	must(t, s.Reconfigure(mustParse(t, "b=systemd:web")))
	if st := mustStats(t, s); st.QueueLimit != 7 || s.spec.FDName() != "b" {
		t.Errorf("%+v, name %s", st, s.spec.FDName())
	}
}

// TestAdoptedRetire leaves the socket, and what waits in it, to systemd.
func TestAdoptedRetire(t *testing.T) {
	t.Parallel()
	s, own := adopted(t, "127.0.0.1:0?reuseport", new(logBuffer))
	serve(t, s, 1, 0).stop()
	client := dialText(t, s.Addr())
	client.SetDeadline(time.Now().Add(deadline))
	must(t, s.Retire(t.Context()))
	echo(t, client, accept(t, own), "hello")
}
