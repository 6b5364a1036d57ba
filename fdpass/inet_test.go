package fdpass

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOpenInet(t *testing.T) {
	t.Parallel()
	tests := []struct {
		spec, addr string // addr without the port
		v4, v6     bool   // who can connect
	}{
		{"tcp://127.0.0.1:0", "tcp://127.0.0.1:", true, false},
		{"tcp://[::1]:0", "tcp://[::1]:", false, true},
		{"tcp://:0", "tcp://[::]:", true, true},
		{"tcp://[::]:0", "tcp://[::]:", true, true},
		{"tcp://:0?v6only", "tcp6://[::]:", false, true},
		{"tcp6://:0", "tcp6://[::]:", false, true},
		{"tcp6://[::1]:0", "tcp://[::1]:", false, true},
		{"tcp4://:0", "tcp://0.0.0.0:", true, false},
		{"tcp://0.0.0.0:0", "tcp://0.0.0.0:", true, false},
		{"tcp4://localhost:0", "tcp://127.0.0.1:", true, false},
	}
	for _, test := range tests {
		t.Run(test.spec, func(t *testing.T) {
			t.Parallel()
			s := mustOpen(t, test.spec)
			fd := join(t, s)
			port, ok := strings.CutPrefix(s.Addr(), test.addr)
			if n, err := strconv.Atoi(port); !ok || err != nil || n == 0 {
				t.Fatalf("Addr = %s, want %sPORT", s.Addr(), test.addr)
			}
			if s.Mode() != Steered {
				t.Errorf("mode %q", s.Mode())
			}
			// The address has to be good as a spec: it is what others are told.
			if spec := mustParse(t, s.Addr()); spec.address() != s.Addr() {
				t.Errorf("%s is read as %s", s.Addr(), spec.address())
			}
			if got := sockoptInt(t, fd, unix.SOL_SOCKET, unix.SO_PROTOCOL); got != unix.IPPROTO_TCP {
				t.Errorf("protocol %d, want TCP and nothing else", got)
			}
			if sockoptInt(t, fd, unix.SOL_SOCKET, unix.SO_REUSEADDR) == 0 || sockoptInt(t, fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN) == 0 {
				t.Error("SO_REUSEADDR is off or it does not listen")
			}
			for host, want := range map[string]bool{"127.0.0.1": test.v4, "::1": test.v6} {
				c, err := net.DialTimeout("tcp", net.JoinHostPort(host, port), deadline)
				if (err == nil) != want {
					t.Errorf("connect over %s: %v, want success %v", host, err, want)
				}
				if err == nil {
					echo(t, c, accept(t, fd), "hello")
					c.Close()
				}
			}
		})
	}
}

func TestOpenUDP(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"udp://127.0.0.1:0": "udp://127.0.0.1:",
		"udp://:0":          "udp://[::]:",
		"udp4://:0":         "udp://0.0.0.0:",
		"udp6://[::1]:0":    "udp://[::1]:",
	} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			s := mustOpen(t, spec)
			if !strings.HasPrefix(s.Addr(), want) {
				t.Errorf("Addr = %s, want %sPORT", s.Addr(), want)
			}
			fd := join(t, s)
			if got := sockoptInt(t, fd, unix.SOL_SOCKET, unix.SO_TYPE); got != unix.SOCK_DGRAM {
				t.Errorf("type %d", got)
			}
			sendUDP(t, s, "hello")
			if got := receive(t, fd); got != "hello" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// sendUDP sends one datagram to the socket over loopback.
func sendUDP(t *testing.T, s Socket, text string) {
	t.Helper()
	c := dialText(t, strings.Replace(s.Addr(), "0.0.0.0", "127.0.0.1", 1))
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// receive reads a datagram, which has to be there already or on its way.
func receive(t *testing.T, fd *FD) string {
	t.Helper()
	eventually(t, "a datagram came", func() bool {
		waiting, err := readable(fd.Raw())
		return err == nil && waiting
	})
	buf := make([]byte, 1<<16)
	n, _, err := unix.Recvfrom(fd.Raw(), buf, unix.MSG_DONTWAIT)
	if err != nil {
		t.Fatal(err)
	}
	return string(buf[:n])
}

// TestDescriptorFlags checks what the service gets: a descriptor that blocks
// unless asked otherwise, close-on-exec here.
func TestDescriptorFlags(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"tcp://127.0.0.1:0", "udp://127.0.0.1:0", "unix:" + abstract(t), "unixgram:" + abstract(t), "unixpacket://" + sockPath(t)} {
		for option, want := range map[string]bool{"": false, "?nonblocking": true} {
			s := mustOpen(t, spec+option)
			fd := join(t, s)
			flags, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_GETFL, 0)
			if err != nil || (flags&unix.O_NONBLOCK != 0) != want {
				t.Errorf("%s%s: flags %#x, %v; want non-blocking %v", spec, option, flags, err, want)
			}
			for _, fd := range []*FD{fd, ownFD(s)} {
				if flags, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
					t.Errorf("%s%s: not close-on-exec: %#x, %v", spec, option, flags, err)
				}
			}
			fd.Close() // the next one has the same name
			s.Close()
		}
	}
}

// ownFD returns the supervisor's own descriptor of a socket.
func ownFD(s Socket) *FD {
	if st, ok := s.(*steered); ok {
		return st.seats[0].fd
	}
	return s.(*shared).fd
}

func TestSocketOptions(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		s := mustOpen(t, "tcp://"+host+":0?reuseport&freebind&rcvbuf=10000&sndbuf=12000&device=lo&defer-accept=3s&fastopen=7")
		fd := join(t, s)
		for _, o := range []struct {
			name             string
			level, opt, want int
		}{
			{"SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, 1},
			{"SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF, 20000},
			{"SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF, 24000},
			{"TCP_FASTOPEN", unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 7},
			{"TCP_DEFER_ACCEPT", unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 3},
		} {
			if got := sockoptInt(t, fd, o.level, o.opt); got != o.want {
				t.Errorf("%s: %s = %d, want %d", host, o.name, got, o.want)
			}
		}
		freebind := sockoptInt(t, fd, unix.IPPROTO_IP, unix.IP_FREEBIND)
		if host == "[::1]" {
			freebind = sockoptInt(t, fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND)
		}
		if freebind != 1 {
			t.Errorf("%s: freebind is off", host)
		}
		if device, err := unix.GetsockoptString(fd.Raw(), unix.SOL_SOCKET, unix.SO_BINDTODEVICE); err != nil || device != "lo" {
			t.Errorf("%s: device %q, %v", host, device, err)
		}
	}
}

// TestPrivilegedOptions checks the options that take CAP_NET_ADMIN, and the
// sentence for who has not got it.
func TestPrivilegedOptions(t *testing.T) {
	for _, option := range []string{"mark=4294967295", "transparent"} {
		for _, host := range []string{"127.0.0.1", "[::1]"} {
			spec := "a=tcp://" + host + ":0?" + option
			name, _, _ := strings.Cut(option, "=")
			want := fmt.Sprintf("socket a: option %q needs the capability CAP_NET_ADMIN (operation not permitted); run as root or give it with AmbientCapabilities= in the unit", name)
			if got := runHelper(t, true, "open", spec); got != want {
				t.Errorf("unprivileged:\ngot  %s\nwant %s", got, want)
			}
			if os.Geteuid() != 0 {
				continue
			}
			fd := join(t, mustOpen(t, spec))
			switch {
			case name == "mark":
				if got := uint32(sockoptInt(t, fd, unix.SOL_SOCKET, unix.SO_MARK)); got != 4294967295 {
					t.Errorf("%s: mark %d", host, got)
				}
			case host == "[::1]":
				if sockoptInt(t, fd, unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT) != 1 {
					t.Errorf("%s: transparent is off", host)
				}
			default:
				if sockoptInt(t, fd, unix.IPPROTO_IP, unix.IP_TRANSPARENT) != 1 {
					t.Errorf("%s: transparent is off", host)
				}
			}
		}
	}
}

// TestBufferClamped lets a process without CAP_NET_ADMIN ask for more than
// net.core.rmem_max; with it there is no limit but the one that is tested here.
func TestBufferClamped(t *testing.T) {
	t.Parallel()
	var log logBuffer
	all := mustOpenAll(t, OpenOptions{Log: log.logger()}, "a=udp://127.0.0.1:0?rcvbuf=2147483647")
	got := sockoptInt(t, join(t, all[0].Socket), unix.SOL_SOCKET, unix.SO_RCVBUF) / 2
	want := fmt.Sprintf(`level=WARN msg="the kernel allows less buffer than asked for" socket=a option=rcvbuf asked=2147483647 got=%d limit=net.core.rmem_max`, got)
	if strings.Count(log.String(), want) != 1 {
		t.Errorf("the log says\n%s\nwant once\n%s", log.String(), want)
	}
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"tcp://127.0.0.1:0", "unix:" + abstract(t), "unixpacket:" + abstract(t)} {
		t.Run(spec, func(t *testing.T) {
			limit := func(option string) (int, string) {
				var log logBuffer
				all := mustOpenAll(t, OpenOptions{Log: log.logger()}, "a="+spec+option)
				defer all[0].Socket.Close()
				st, err := all[0].Socket.Stats()
				if err != nil {
					t.Fatal(err)
				}
				return st.QueueLimit, log.String()
			}
			somaxconn, log := limit("")
			if somaxconn != somaxconnNow(t) || log != "" {
				t.Errorf("by default the limit is %d, somaxconn is %d, the log says %q", somaxconn, somaxconnNow(t), log)
			}
			if got, log := limit("?backlog=7"); got != 7 || log != "" {
				t.Errorf("the limit is %d, want 7, the log says %q", got, log)
			}
			got, log := limit("?backlog=" + strconv.Itoa(somaxconn+1))
			want := fmt.Sprintf(`level=WARN msg="the kernel allows fewer waiting connections than asked for" socket=a option=backlog asked=%d got=%d limit=net.core.somaxconn`, somaxconn+1, somaxconn)
			if got != somaxconn || strings.Count(log, want) != 1 {
				t.Errorf("clamped to %d, the log says\n%s\nwant once\n%s", got, log, want)
			}
		})
	}
}

func somaxconnNow(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/core/somaxconn")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNoIPv6(t *testing.T) {
	if got := runHelper(t, false, "no-ipv6", "tcp://:0"); !strings.HasPrefix(got, "tcp://0.0.0.0:") {
		t.Errorf("without IPv6 tcp://:0 becomes %s, want tcp://0.0.0.0:PORT", got)
	}
	for _, spec := range []string{"tcp6://:0", "tcp://[::]:0?v6only"} {
		s := mustParse(t, spec)
		want := fmt.Sprintf("socket %s: the kernel, or RestrictAddressFamilies= in the unit, does not allow the family of %s (address family not supported by protocol)", s.FDName(), s.address())
		if got := runHelper(t, false, "no-ipv6", spec); got != want {
			t.Errorf("without IPv6 %s:\ngot  %s\nwant %s", spec, got, want)
		}
	}
}

func TestInetErrors(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	inUse := taken.Addr().String()
	tests := []struct {
		spec, want string
		err        error
	}{
		{"http=tcp://" + inUse, "socket http: tcp://" + inUse + " is in use by another process (address already in use); stop it or choose another port", unix.EADDRINUSE},
		{"a=tcp://192.0.2.1:0", "socket a: this machine does not have the address of tcp://192.0.2.1:0 (cannot assign requested address); correct it, or set freebind if it comes later", unix.EADDRNOTAVAIL},
		{"a=udp://[2001:db8::1]:0", "socket a: this machine does not have the address of udp://[2001:db8::1]:0 (cannot assign requested address); correct it, or set freebind if it comes later", unix.EADDRNOTAVAIL},
		{"a=tcp://127.0.0.1:0?device=nosuchif", `socket a: there is no network interface "nosuchif"`, unix.ENODEV},
		{"a=tcp://[fe80::1%nosuchif]:0", `socket a: there is no network interface "nosuchif"`, unix.ENODEV},
	}
	for _, test := range tests {
		oe := openErr(t, OpenOptions{}, test.spec)
		if oe.Error() != test.want || !errors.Is(oe, test.err) {
			t.Errorf("%s:\ngot  %v\nwant %s", test.spec, oe, test.want)
		}
	}
	for _, spec := range []string{"tcp://192.0.2.1:0?freebind", "tcp://[2001:db8::1]:0?freebind"} {
		mustOpen(t, spec)
	}
}

func TestUnknownHost(t *testing.T) {
	t.Parallel()
	oe := openErr(t, OpenOptions{}, "a=tcp://no-such-host.invalid:0")
	if !strings.HasPrefix(oe.Error(), `socket a: the host name "no-such-host.invalid" has no address (lookup no-such-host.invalid`) ||
		!strings.HasSuffix(oe.Error(), "; give an address instead, or check the resolver") {
		t.Errorf("got %v", oe)
	}
	var dns *net.DNSError
	if !errors.As(oe, &dns) {
		t.Errorf("the error does not wrap that of the look-up: %#v", oe.Err)
	}
}

func TestLowPort(t *testing.T) {
	first := firstFreePort()
	if first <= 80 {
		t.Skipf("net.ipv4.ip_unprivileged_port_start is %d: port 80 is free for all", first)
	}
	want := fmt.Sprintf("socket http: tcp://127.0.0.1:80 needs the capability CAP_NET_BIND_SERVICE, as do all ports below %d (permission denied); run as root, give it with AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit, or choose a higher port", first)
	if got := runHelper(t, true, "open", "http=tcp://127.0.0.1:80"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestNoDescriptorLeft(t *testing.T) {
	want := "socket a: no file descriptor is left for tcp://127.0.0.1:0 (too many open files); raise LimitNOFILE= in the unit"
	if got := runHelper(t, false, "few-files", "a=tcp://127.0.0.1:0"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestRebindAtOnce closes a listener whose connections linger in TIME-WAIT and
// binds its port again, as a restarted supervisor does.
func TestRebindAtOnce(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, "tcp://127.0.0.1:0")
	client := dialText(t, s.Addr())
	fd, err := s.Join(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	server := accept(t, fd)
	// Who closes first is left with TIME-WAIT.
	server.Close()
	client.SetReadDeadline(time.Now().Add(deadline))
	if n, err := client.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Fatalf("read %d, %v", n, err)
	}
	client.Close()
	addr := s.Addr()
	if err := errors.Join(fd.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	if got := mustOpen(t, addr).Addr(); got != addr {
		t.Errorf("bound %s, want %s", got, addr)
	}
}
