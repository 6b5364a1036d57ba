package standalone

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// holding holds connections that were carried over for so long that a test can do with them what it wants.
func (c configuration) holding(more ...string) configuration {
	c.sockets = strings.Replace(c.sockets, "keepalive = \"carry\"\n", "keepalive = \"carry\"\ncarry-idle = \"1m\"\n"+strings.Join(more, "\n")+"\n", 1)
	return c
}

// carriedOver waits until the connections of a handoff have come to where they go, as ok says.
func (s *supervisor) carriedOver(what string, ok func(*upgrade.Carried) bool) *upgrade.Carried {
	s.t.Helper()
	st := s.until(what, func(st *control.Status) bool {
		return st.Last != nil && st.Last.Carried != nil && ok(st.Last.Carried)
	})
	return st.Last.Carried
}

// carryEnded waits until nothing of a handoff's connections is carried over any more, and returns what became of them: what is lost last is counted
// by then, too.
func (s *supervisor) carryEnded() *upgrade.Carried {
	s.t.Helper()
	waitFor(s.t, "the end of carrying over", func() bool { return strings.Contains(s.log.String(), carryEnd) })
	return s.carriedOver("counts", func(*upgrade.Carried) bool { return true })
}

// carryEnd is what the supervisor says when it is over.
const carryEnd = "carried kept-alive connections over"

// send sends text on the connection.
func (k *kept) send(format string, args ...any) {
	k.t.Helper()
	k.c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := fmt.Fprintf(k.c, format, args...); err != nil {
		k.t.Error(err)
	}
}

// answer reads an answer.
func (k *kept) answer() (*http.Response, string) {
	k.t.Helper()
	k.c.SetDeadline(time.Now().Add(30 * time.Second))
	answer, err := http.ReadResponse(k.br, nil)
	if err != nil {
		k.t.Errorf("no answer: %v", err)
		return &http.Response{Header: make(http.Header)}, ""
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		k.t.Errorf("the answer is cut off: %v", err)
	}
	return answer, string(body)
}

// lastBy reads an answer that has to be the last one, and of version.
func (k *kept) lastBy(version string) *http.Response {
	k.t.Helper()
	answer, _ := k.answer()
	if got := answer.Header.Get("X-Version"); got != version || !answer.Close {
		k.t.Errorf("%s by %q, and the connection goes on: %t; want it of %s, and an end", answer.Status, got, !answer.Close, version)
	}
	k.ended()
	return answer
}

const getRequest = "GET /?id=%d HTTP/1.1\r\nHost: x\r\n\r\n"

// executed returns the service's journal.
func executed(t *testing.T, journal string) string {
	t.Helper()
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A thousand idle connections are carried over, and each is answered once by the new version.
func TestCarryIdle(t *testing.T) {
	t.Parallel()
	const n = 1000
	// It lives on for a while: what is closed by its end is not held for long.
	s := start(t, carried("v0", "-hold-open=10s").holding())
	var clients []*kept
	address := s.address()
	for range n {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		k := newKept(t, c)
		k.answeredBy("v0")
		clients = append(clients, k)
	}
	before := s.resident()
	s.reloadTo(carried("v1").holding()).must()
	c := s.carriedOver("all connections carried over", func(c *upgrade.Carried) bool { return c.Found() >= n })
	t.Logf("%+v; %d KiB resident, and %d before", c, s.resident(), before)
	began := time.Now()
	if c.Carried != n {
		t.Errorf("%d of %d connections were carried over", c.Carried, n)
	}
	for i, k := range clients {
		k.send(getRequest, i)
	}
	for i, k := range clients {
		if a := k.lastBy("v1"); a.Header.Get("X-Id") != fmt.Sprint(i) {
			t.Errorf("request %d got the answer to %s", i, a.Header.Get("X-Id"))
		}
	}
	t.Logf("%d requests at once took %s", n, time.Since(began))
	s.settled()
	if c := s.carryEnded(); c.Relayed != n || c.Lost > 0 {
		t.Errorf("%+v", c)
	}
}

// carryOne returns a connection that was carried over, for whatever comes on it.
func (s *supervisor) carryOne(to configuration) *kept {
	s.t.Helper()
	k := s.keep("v0")
	s.reloadTo(to).must()
	s.carriedOver("a connection carried over", func(c *upgrade.Carried) bool { return c.Carried == 1 })
	return k
}

// What comes on a connection that was carried over.
func TestCarriedRequests(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("0123456789abcdef", 1<<20/16*3)
	for name, try := range map[string]func(t *testing.T, k *kept, journal string){
		"in pieces": func(t *testing.T, k *kept, _ string) {
			for _, c := range "GET /?id=1 HTTP/1.1\r\nHost: x\r\n\r\n" {
				k.send("%c", c)
				time.Sleep(time.Millisecond)
			}
			k.lastBy("v1")
		},
		"a large body": func(t *testing.T, k *kept, _ string) {
			k.send("POST /?id=1 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(big), big)
			if a := k.lastBy("v1"); !strings.HasPrefix(a.Header.Get("X-Body"), fmt.Sprint(len(big))) {
				t.Errorf("the service got %s", a.Header.Get("X-Body"))
			}
		},
		"a chunked body": func(t *testing.T, k *kept, _ string) {
			k.send("POST /?id=1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
			for range 10 {
				k.send("5\r\nhello\r\n")
				time.Sleep(5 * time.Millisecond)
			}
			k.send("0\r\n\r\n")
			if a := k.lastBy("v1"); !strings.HasPrefix(a.Header.Get("X-Body"), "50-") {
				t.Errorf("the service got %s", a.Header.Get("X-Body"))
			}
		},
		"expect": func(t *testing.T, k *kept, _ string) {
			k.send("POST /?id=1 HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
			line, err := k.br.ReadString('\n')
			if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
				t.Fatalf("%q, %v", line, err)
			}
			k.br.ReadString('\n')
			k.send("hello")
			if a := k.lastBy("v1"); !strings.HasPrefix(a.Header.Get("X-Body"), "5-") {
				t.Errorf("the service got %s", a.Header.Get("X-Body"))
			}
		},
		"HTTP/1.0": func(t *testing.T, k *kept, _ string) {
			k.send("GET /?id=1&pieces=3&every=10ms HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
			a, body := k.answer()
			if a.Header.Get("X-Version") != "v1" || strings.Count(body, "piece") != 3 || a.TransferEncoding != nil {
				t.Errorf("%v %q", a, body)
			}
			k.ended()
		},
		"half closed": func(t *testing.T, k *kept, _ string) {
			k.send(getRequest, 1)
			k.c.(*net.TCPConn).CloseWrite()
			k.lastBy("v1")
		},
		"pipelined": func(t *testing.T, k *kept, journal string) {
			k.send(strings.Repeat(getRequest, 3), 1, 2, 3)
			if a := k.lastBy("v1"); a.Header.Get("X-Id") != "1" {
				t.Errorf("the first answer is to request %s", a.Header.Get("X-Id"))
			}
			if text := executed(t, journal); strings.Contains(text, "id=2") || strings.Contains(text, "id=3") {
				t.Errorf("what the client has to send again was executed:\n%s", text)
			}
		},
		"streamed": func(t *testing.T, k *kept, _ string) {
			k.send("GET /?id=1&pieces=5&every=50ms HTTP/1.1\r\nHost: x\r\n\r\n")
			began, first := time.Now(), time.Duration(0)
			a, err := http.ReadResponse(k.br, nil)
			if err != nil {
				t.Fatal(err)
			}
			br := bufio.NewReader(a.Body)
			for i := range 5 {
				if line, err := br.ReadString('\n'); err != nil || line != fmt.Sprintf("piece %d\n", i) {
					t.Fatalf("%q, %v", line, err)
				}
				if i == 0 {
					first = time.Since(began)
				}
			}
			if all := time.Since(began); all-first < 150*time.Millisecond {
				t.Errorf("the first piece came after %s, the last after %s: it was not a stream any more", first, all)
			}
		},
		"a failing service": func(t *testing.T, k *kept, _ string) {
			k.send("GET /?id=1&status=503 HTTP/1.1\r\nHost: x\r\n\r\n")
			if a := k.lastBy("v1"); a.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("%s", a.Status)
			}
		},
		"an upgrade": func(t *testing.T, k *kept, _ string) {
			k.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			a, err := http.ReadResponse(k.br, nil)
			if err != nil || a.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%v, %v", a, err)
			}
			for i := range 5 {
				k.send("GET /?id=%d\n", i)
				if line, err := k.br.ReadString('\n'); err != nil || line != fmt.Sprintf("GET /?id=%d\n", i) {
					t.Fatalf("%q, %v", line, err)
				}
			}
			k.c.(*net.TCPConn).CloseWrite()
			k.ended()
		},
		"as it was sent": func(t *testing.T, k *kept, journal string) {
			k.send("GET //a/./b%%2fc;d?x=1;y=%%zz&&z HTTP/1.1\r\nHost: x\r\n\r\n")
			k.lastBy("v1")
			if text := executed(t, journal); !strings.Contains(text, "GET //a/./b%2fc;d?x=1;y=%zz&&z ") {
				t.Errorf("%s", text)
			}
		},
		"an absolute target": func(t *testing.T, k *kept, journal string) {
			k.send("GET http://x/a%%2Fb?q HTTP/1.1\r\nHost: x\r\n\r\n")
			k.lastBy("v1")
			if text := executed(t, journal); !strings.Contains(text, "a%2Fb?q ") {
				t.Errorf("%s", text)
			}
		},
		"the client closes": func(t *testing.T, k *kept, _ string) {
			k.c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			journal := filepath.Join(t.TempDir(), "journal")
			s := start(t, carried("v0", "-log="+journal).holding())
			k := s.carryOne(carried("v1", "-log="+journal).holding())
			k.t = t
			try(t, k, journal)
			k.c.Close()
			if c := s.carryEnded(); c.Carried != 1 || c.Lost > 0 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// What does not begin as a request, or whose end two readers may see in two places, is not passed on.
func TestCarryRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"two lengths":     {"POST /?id=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /?id=2 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		"lengths differ":  {"POST /?id=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 30\r\n\r\nGET /?id=2 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		"a folded header": {"POST /?id=1 HTTP/1.1\r\nHost: x\r\nX: y\r\n Content-Length: 30\r\n\r\nGET /?id=2 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		"a bare line end": {"POST /?id=1 HTTP/1.1\r\nHost: x\r\nX: y\nContent-Length: 30\r\n\r\nGET /?id=2 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
		"no request":      {"id=1\r\nGET /?id=2 HTTP/1.1\r\nHost: x\r\n\r\n", ""},
		"an end of line":  {"\r\nGET /?id=2 HTTP/1.1\r\nHost: x\r\n\r\n", ""},
		"a tunnel":        {"CONNECT id=1:80 HTTP/1.1\r\nHost: x\r\n\r\nGET /?id=2 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			journal := filepath.Join(t.TempDir(), "journal")
			s := start(t, carried("v0", "-log="+journal).holding())
			k := s.carryOne(carried("v1", "-log="+journal).holding())
			k.t = t
			k.send("%s", c.text)
			got, err := io.ReadAll(k.br)
			if want := "HTTP/1.1 " + c.want; c.want != "" && (err != nil || !strings.HasPrefix(string(got), want)) || c.want == "" && len(got) > 0 {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			if text := executed(t, journal); strings.Contains(text, "id=") {
				t.Errorf("it was executed:\n%s", text)
			}
			if n := s.carryEnded(); n.Lost != 1 || n.Relayed != 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// The limit on requests that are passed on at once has others wait, and no more than that.
func TestCarryLimit(t *testing.T) {
	t.Parallel()
	const n = 12
	s := start(t, carried("v0", "-work=100ms").holding("carry-relays = 2"))
	var clients []*kept
	for range n {
		clients = append(clients, s.keep("v0"))
	}
	s.reloadTo(carried("v1", "-work=100ms").holding("carry-relays = 2")).must()
	s.carriedOver("all", func(c *upgrade.Carried) bool { return c.Carried == n })
	began := time.Now()
	for i, k := range clients {
		k.send(getRequest, i)
	}
	for _, k := range clients {
		k.lastBy("v1")
	}
	if took := time.Since(began); took < n/2*100*time.Millisecond {
		t.Errorf("all had their answers after %s: more than two were passed on at once", took)
	}
}

// A request that is passed on to a version that dies with it is answered with 502, and is not sent again.
func TestCarryToOneThatDies(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	s := start(t, carried("v0", "-log="+journal).holding())
	k := s.carryOne(carried("v1", "-log="+journal).holding())
	s.settled()
	k.send("GET /?id=1&sleep=20s HTTP/1.1\r\nHost: x\r\n\r\n")
	waitFor(t, "the request", func() bool { return strings.Contains(executed(t, journal), "id=1") })
	kill(t, s.live().PID)
	answer, _ := k.answer()
	if answer.StatusCode != http.StatusBadGateway || !answer.Close {
		t.Errorf("%+v", answer)
	}
	k.ended()
	s.until("it live again", func(st *control.Status) bool { return live(st) != nil && live(st).Number == 3 })
	if n := strings.Count(executed(t, journal), "id=1"); n != 1 {
		t.Errorf("it was executed %d times", n)
	}
	// It is the record of the restart that is the last one now.
	if st, err := s.client.Status(t.Context()); err != nil || st.Carried == nil || st.Carried.Lost != 1 {
		t.Errorf("%+v, %v", st, err)
	}
}

// A stop ends what waits for a request at once, and what is being passed on in order.
func TestStopWhileCarrying(t *testing.T) {
	t.Parallel()
	s := start(t, carried("v0").holding())
	idle := s.keep("v0")
	k := s.keep("v0")
	s.reloadTo(carried("v1").holding()).must()
	s.carriedOver("both", func(c *upgrade.Carried) bool { return c.Carried == 2 })
	k.send("GET /?id=1&sleep=1s HTTP/1.1\r\nHost: x\r\n\r\n")
	s.carriedOver("one request", func(c *upgrade.Carried) bool { return c.Relayed == 1 })
	s.signal(unix.SIGTERM)
	idle.ended()
	k.lastBy("v1")
	if status := s.wait(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}
