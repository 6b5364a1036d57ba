package load_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// serveEnv makes the test binary the process that a Remote drives.
const serveEnv = "ZDD_TEST_LOAD_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		if err := load.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// good answers every request of a connection as version v.
func good(v string) func(net.Conn) {
	return func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Version: %s\r\nContent-Length: 2\r\n\r\nok", v)
			if req.Close {
				return
			}
		}
	}
}

// request reads one request and then lets then go on with the connection.
func request(then func(net.Conn)) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			then(c)
		}
	}
}

// listen serves connections with handle until the test is over, and returns the address.
func listen(t *testing.T, network string, handle func(net.Conn)) string {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "sock")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-over })
	go func() {
		defer close(over)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			// The handlers end when the client closes its side; the client's own end is waited for by Stop.
			go func() {
				defer c.Close()
				handle(c)
			}()
		}
	}()
	return l.Addr().String()
}

// run sends n requests and returns what came of them.
func run(t *testing.T, c load.Config, n int) *load.Result {
	t.Helper()
	c.MaxRequests, c.Workers = n, min(n, 4)
	if c.Timeout == 0 {
		c.Timeout = 20 * time.Second
	}
	client, err := load.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-client.Done():
	case <-time.After(time.Minute):
		t.Error("the load did not end by itself")
	}
	return client.Stop()
}

// refusing returns the address of a socket that is bound, so that nobody else gets its port, but does not listen.
func refusing(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", sa.(*unix.SockaddrInet4).Port)
}

func TestKinds(t *testing.T) {
	t.Parallel()
	reset := func(c net.Conn) { _ = c.(*net.TCPConn).SetLinger(0) }
	say := func(text string) func(net.Conn) {
		return request(func(c net.Conn) { _, _ = c.Write([]byte(text)) })
	}
	// A silent server waits for the client to give up, which shows as the end of its side.
	silent := request(func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) })
	tests := []struct {
		name    string
		handle  func(net.Conn)
		timeout time.Duration
		want    load.Kind
	}{
		{"good", good("1"), 0, load.OK},
		{"reset", request(reset), 0, load.ReadReset},
		{"closed", request(func(net.Conn) {}), 0, load.Closed},
		{"silent", silent, 50 * time.Millisecond, load.Timeout},
		{"garbage", say("mumble\r\n\r\n"), 0, load.BadAnswer},
		{"status", say("HTTP/1.1 503 Away\r\nContent-Length: 0\r\n\r\n"), 0, load.BadAnswer},
		{"cut in the head", say("HTTP/1.1 200 OK\r\nX-Ver"), 0, load.Truncated},
		{"cut in the body", say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"), 0, load.Truncated},
		{"chunked", say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), 0, load.OK},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const n = 5
			r := run(t, load.Config{Address: listen(t, "tcp", tt.handle), Timeout: tt.timeout}, n)
			if got := r.Count(tt.want); got != n || len(r.Requests) != n {
				t.Errorf("want %d times %s, got:\n%s", n, tt.want, r)
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	for _, c := range []load.Config{
		{Address: refusing(t)},
		{Network: "unix", Address: filepath.Join(t.TempDir(), "missing")},
	} {
		if r := run(t, c, 3); r.Count(load.Refused) != 3 {
			t.Errorf("%s: want 3 refused, got:\n%s", c.Address, r)
		}
	}
}

// TestFullUnixQueue shows that a client of a unix socket waits in connect while the queue is full, and is not refused.
func TestFullUnixQueue(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sock")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	r := run(t, load.Config{Network: "unix", Address: path, Timeout: 50 * time.Millisecond}, 4)
	if r.Count(load.Timeout) != 4 {
		t.Errorf("want 4 timeouts, got:\n%s", r)
	}
}

func TestKeepAlive(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	counted := func(handle func(net.Conn)) func(net.Conn) {
		return func(c net.Conn) { connections.Add(1); handle(c) }
	}
	r := run(t, load.Config{Network: "unix", Address: listen(t, "unix", counted(good("1"))), KeepAlive: true}, 100)
	if r.Failed() != 0 || connections.Load() > 4 {
		t.Errorf("want 100 answers on at most 4 connections, got %d connections and:\n%s", connections.Load(), r)
	}

	// A service that says goodbye is connected anew for each request, and nothing fails.
	polite := request(func(c net.Conn) {
		fmt.Fprint(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	})
	connections.Store(0)
	r = run(t, load.Config{Address: listen(t, "tcp", counted(polite)), KeepAlive: true}, 10)
	if r.Failed() != 0 || connections.Load() != 10 {
		t.Errorf("want 10 answers on 10 connections, got %d connections and:\n%s", connections.Load(), r)
	}
}

// TestIdleClose has a server that closes each kept-alive connection after one answer without saying so in it.
func TestIdleClose(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 1)
	rude := func(c net.Conn) {
		request(func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") })(c)
		_ = c.Close()
		closed <- struct{}{}
	}
	client, err := load.Start(t.Context(), load.Config{
		Address: listen(t, "tcp", rude), KeepAlive: true, Workers: 1, Rate: 2, MaxRequests: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	<-closed // half a second before the second request is due
	<-closed
	if r := client.Stop(); r.Failed() != 0 || r.IdleClosed != 1 {
		t.Errorf("want one idle close and no failure, got:\n%s", r)
	}
}

// TestLatencyFromDue has a server that holds up the first request until five more are due. With one worker these are sent late, and
// their latency must say so.
func TestLatencyFromDue(t *testing.T) {
	t.Parallel()
	const rate, hold = 100, 60 * time.Millisecond
	var first atomic.Bool
	slow := func(c net.Conn) {
		if first.CompareAndSwap(false, true) {
			time.Sleep(hold) // the stall itself, no wait for anything
		}
		good("1")(c)
	}
	r := run(t, load.Config{Address: listen(t, "tcp", slow), Rate: rate}, 1)
	if got := r.Quantile(1); got < hold {
		t.Errorf("the stalled request took %s, which is less than the stall of %s", got, hold)
	}
	first.Store(false)
	client, err := load.Start(t.Context(), load.Config{Address: listen(t, "tcp", slow), Rate: rate, Workers: 1, MaxRequests: 6})
	if err != nil {
		t.Fatal(err)
	}
	<-client.Done()
	r = client.Stop()
	for i, q := range r.Requests {
		want := hold - time.Duration(i)*time.Second/rate
		if q.Latency() < want {
			t.Errorf("request %d: latency %s, but it was due %s before the server went on", i, q.Latency(), want)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	var served atomic.Int64
	handle := func(c net.Conn) { good([]string{"old", "new"}[min(served.Add(1)/50, 1)])(c) }
	var told []string
	client, err := load.Start(t.Context(), load.Config{
		Address: listen(t, "tcp", handle), FirstAnswer: func(v string, _ time.Time) { told = append(told, v) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Version(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	if err := client.Answered(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	r := client.Stop()
	if err := client.Version(t.Context(), "never"); err != load.ErrEnded {
		t.Errorf("waiting for a version after the end: %v, want ErrEnded", err)
	}
	if got := strings.Join(r.Versions, " "); got != "old new" || strings.Join(told, " ") != got {
		t.Errorf("versions %q, told %q", r.Versions, told)
	}
	n, from, to := r.Seen("old")
	if n == 0 || from.Before(r.Begin) || to.Before(from) {
		t.Errorf("old was seen %d times from %s to %s", n, from, to)
	}
	if n, _, _ := r.Seen("never"); n != 0 {
		t.Errorf("a version that never answered was seen %d times", n)
	}
}

func TestVersionInBody(t *testing.T) {
	t.Parallel()
	handle := request(func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\na 1\nstart 12.5\n") })
	r := run(t, load.Config{Address: listen(t, "tcp", handle), VersionBody: `(?m)^start (\S+)$`}, 2)
	if len(r.Versions) != 1 || r.Versions[0] != "12.5" {
		t.Errorf("versions %q, want 12.5", r.Versions)
	}
}

// TestPost sends a body with each request, on new and on kept-alive connections.
func TestPost(t *testing.T) {
	t.Parallel()
	echo := func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Version: %s-%s\r\nContent-Length: 2\r\n\r\nok", req.Method, body)
		}
	}
	for _, keep := range []bool{false, true} {
		r := run(t, load.Config{Address: listen(t, "tcp", echo), Body: "a body", KeepAlive: keep}, 20)
		if r.Failed() > 0 || !slices.Equal(r.Versions, []string{"POST-a body"}) {
			t.Errorf("kept alive %t: %s, answered by %q", keep, r, r.Versions)
		}
	}
}

// TestGreeting loads a service that speaks first, one that ends before it does, and one that says something else.
func TestGreeting(t *testing.T) {
	t.Parallel()
	say := func(text string) func(net.Conn) { return func(c net.Conn) { fmt.Fprint(c, text) } }
	for text, want := range map[string]load.Kind{
		"hello v1\r\n": load.OK, "a line\nhello v1\n": load.OK, "": load.Closed, "hello": load.Truncated, "another\n": load.Truncated,
	} {
		r := run(t, load.Config{Address: listen(t, "tcp", say(text)), Greeting: `^hello (\S+)`}, 5)
		if r.Count(want) != 5 {
			t.Errorf("%q: %s", text, r)
		}
		if want == load.OK && !slices.Equal(r.Versions, []string{"v1"}) {
			t.Errorf("%q: answered by %q", text, r.Versions)
		}
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []load.Config{
		{},
		{Address: "localhost:80"},
		{Address: "127.0.0.1:80", Network: "udp"},
		{Address: "127.0.0.1:80", Workers: -1},
		{Address: "127.0.0.1:80", Rate: -1},
		{Address: "127.0.0.1:80", Path: "no"},
		{Address: "127.0.0.1:80", VersionBody: "("},
		{Address: "127.0.0.1:80", VersionBody: "no group"},
		{Address: "127.0.0.1:80", Greeting: "no group"},
		{Address: "127.0.0.1:80", Greeting: "(a)", KeepAlive: true},
		{Network: "unix"},
	} {
		if client, err := load.Start(t.Context(), c); err == nil {
			client.Stop()
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestRemote(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := func() *exec.Cmd {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), serveEnv+"=1")
		return cmd
	}
	remote, err := load.StartRemote(command(), load.Config{Address: listen(t, "tcp", good("7"))})
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Version(t.Context(), "7"); err != nil {
		t.Error(err)
	}
	r, err := remote.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if r.Count(load.OK) == 0 || r.Failed() != 0 {
		t.Errorf("want answers only, got:\n%s", r)
	}

	// A process that does not speak, and one whose load cannot start.
	remote, err = load.StartRemote(exec.Command("/bin/true"), load.Config{Address: "127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Versions(t.Context(), 1); err == nil {
		t.Error("a process that ended at once answered")
	}
	if _, err := remote.Stop(); err == nil {
		t.Error("a process without a result is no error")
	}
	if _, err := load.StartRemote(command(), load.Config{}); err == nil {
		t.Error("a load without an address was started")
	}
}
