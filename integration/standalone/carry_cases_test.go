package standalone

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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
	if c := s.carriedOver("the end", func(c *upgrade.Carried) bool { return c.Relayed == n }); c.Lost > 0 {
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
			if c := s.carriedOver("counts", func(*upgrade.Carried) bool { return true }); c.Lost > 0 {
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
			// The answer comes before it is counted.
			if n := s.carriedOver("counts", func(c *upgrade.Carried) bool { return c.Lost+c.Relayed > 0 }); n.Lost != 1 || n.Relayed != 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// In the middle of something a connection is left to the old version, which ends it as ever; nothing of it gets to the new one. smuggled
// is what an attacker would have taken for a request.
func TestCarryLeavesAlone(t *testing.T) {
	t.Parallel()
	const smuggled = "GET /?id=666 HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, c := range map[string]struct {
		before, after string
		read          func(t *testing.T, k *kept) // what comes before the handoff
		then          func(t *testing.T, k *kept)
	}{
		"a slow answer": {
			before: "GET /?id=1&sleep=1s HTTP/1.1\r\nHost: x\r\n\r\n",
			then:   func(_ *testing.T, k *kept) { k.lastBy("v0") },
		},
		"a stream": {
			before: "GET /?id=1&pieces=20&every=50ms HTTP/1.1\r\nHost: x\r\n\r\n",
			then: func(t *testing.T, k *kept) {
				if _, body := k.answer(); strings.Count(body, "piece") != 20 {
					t.Errorf("%q", body)
				}
			},
		},
		"a slow stream": {
			before: "GET /?id=1&pieces=4&every=700ms HTTP/1.1\r\nHost: x\r\n\r\n",
			then: func(t *testing.T, k *kept) {
				if _, body := k.answer(); strings.Count(body, "piece") != 4 {
					t.Errorf("%q", body)
				}
			},
		},
		"half a head": {
			before: "GET /?id=1 HTTP/1.1\r\nX: y\r\n", after: "Host: x\r\n\r\n",
			then: func(_ *testing.T, k *kept) { io.Copy(io.Discard, k.br) },
		},
		"half a body": {
			before: fmt.Sprintf("POST /?id=1 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", 2*len(smuggled), smuggled), after: smuggled,
			then: func(_ *testing.T, k *kept) { k.lastBy("v0") },
		},
		"half a chunked body": {
			before: fmt.Sprintf("POST /?id=1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", len(smuggled)), after: smuggled + "\r\n0\r\n\r\n",
			then: func(_ *testing.T, k *kept) { k.lastBy("v0") },
		},
		"a body after 100 Continue": {
			before: fmt.Sprintf("POST /?id=1 HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(smuggled)), after: smuggled,
			read: func(t *testing.T, k *kept) {
				if line, err := k.br.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
					t.Errorf("%q, %v", line, err)
				}
				k.br.ReadString('\n')
			},
			then: func(_ *testing.T, k *kept) { k.lastBy("v0") },
		},
		"a body after the answer": {
			before: fmt.Sprintf("POST /?id=1&early=1 HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", 2*len(smuggled)), after: smuggled + smuggled,
			read: func(t *testing.T, k *kept) {
				if a, _ := k.answer(); a.Header.Get("X-Version") != "v0" {
					t.Errorf("%v", a)
				}
			},
			then: func(_ *testing.T, k *kept) { io.Copy(io.Discard, k.br) },
		},
		"an upgraded connection": {
			before: "GET /?id=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", after: smuggled,
			read: func(t *testing.T, k *kept) {
				if a, err := http.ReadResponse(k.br, nil); err != nil || a.StatusCode != http.StatusSwitchingProtocols {
					t.Errorf("%v, %v", a, err)
				}
			},
			then: func(t *testing.T, k *kept) {
				if rest, _ := io.ReadAll(k.br); string(rest) != "bye\n" {
					t.Errorf("%q", rest)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			journal := filepath.Join(t.TempDir(), "journal")
			s := start(t, carried("v0", "-log="+journal).holding())
			k := s.keep("v0")
			idle := s.keep("v0") // so that something is carried over
			k.t = t
			k.send("%s", c.before)
			if c.read != nil {
				c.read(t, k)
			}
			s.reloadTo(carried("v1", "-log="+journal).holding()).must()
			s.carriedOver("the idle connection", func(c *upgrade.Carried) bool { return c.Carried > 0 })
			if c.after != "" {
				_, _ = io.WriteString(k.c, c.after) // it may have ended
			}
			c.then(t, k)
			idle.send(getRequest, 2)
			idle.lastBy("v1")
			s.settled()
			if text := executed(t, journal); strings.Contains(text, "id=666") {
				t.Errorf("a body was executed:\n%s", text)
			}
			n := s.carriedOver("counts", func(c *upgrade.Carried) bool { return c.Found() == 2 })
			t.Logf("%+v", n)
			if n.Carried != 1 || n.Relayed != 1 || n.Lost > 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// A client sees the end of an answer that ends with its connection, however close the handoff is.
func TestCarryShowsTheEnd(t *testing.T) {
	t.Parallel()
	s := start(t, carried("v0"))
	for i := range 5 {
		idle := s.keep(fmt.Sprintf("v%d", i))
		type result struct {
			text string
			took time.Duration
		}
		results := make(chan result)
		const n = 40
		for j := range n {
			go func() {
				time.Sleep(time.Duration(j) * 20 * time.Millisecond)
				c, err := net.Dial("tcp", s.address())
				if err != nil {
					results <- result{err.Error(), 0}
					return
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(20 * time.Second))
				began := time.Now()
				if j%2 == 0 {
					fmt.Fprintf(c, "GET / HTTP/1.0\r\n\r\n")
				} else {
					fmt.Fprintf(c, "GET /?raw=1&pieces=5&every=10ms HTTP/1.1\r\nHost: x\r\n\r\n")
				}
				text, err := io.ReadAll(c)
				results <- result{fmt.Sprintf("%v %s", err, text), time.Since(began)}
			}()
		}
		s.reloadTo(carried(fmt.Sprintf("v%d", i+1))).must()
		var slowest time.Duration
		for range n {
			r := <-results
			slowest = max(slowest, r.took)
			if !strings.HasPrefix(r.text, "<nil> HTTP/1.") || r.took > 1500*time.Millisecond {
				t.Errorf("after %s: %q", r.took, r.text)
			}
		}
		t.Logf("the slowest took %s", slowest)
		idle.c.Close()
		s.settled()
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

// The old version does not run for a while, whatever it is doing.
func TestCarryFromOneThatStalls(t *testing.T) {
	s := start(t, carried("v0"))
	l := &keptLoad{t: t, address: s.address(), clients: 20, pause: pauses(time.Millisecond, 20*time.Millisecond)}
	l.start()
	defer l.stop()
	for i := range 12 {
		stalled := stall(t, s.settled().PID, 300*time.Millisecond)
		time.AfterFunc(time.Duration(i)*50*time.Millisecond, stalled.begin)
		s.reloadTo(carried(fmt.Sprintf("v%d", i+1))).must()
		stalled.wait()
	}
	s.settled()
	l.stop()
	st, err := s.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s; %+v", l, st.Carried)
	if l.failed.Load() > 0 {
		t.Error("some were lost")
	}
}

// Where the supervisor may not have the service's descriptors, it says so and goes on without.
func TestCarryWithoutPrivilege(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can start a service as somebody else")
	}
	drop := []string{"setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"}
	if _, err := exec.LookPath(drop[0]); err != nil {
		t.Skip(err)
	}
	service := func(version string) configuration {
		return carried(version).with("user = \"nobody\"\n")
	}
	s := launch(t, service("v0"), drop...)
	for _, dir := range []string{s.dir, filepath.Dir(testservice)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.until("a live generation", func(st *control.Status) bool { return live(st) != nil })
	k := s.keep("v0")
	s.reloadTo(service("v1")).must()
	k.ended()
	s.settled()
	if log := s.log.String(); strings.Count(log, "CAP_SYS_PTRACE") != 1 {
		t.Errorf("the log does not say once what it takes:\n%s", log)
	}
	s.allBy("v1")
}

// A supervisor is killed while connections are parked. The mark stays on them, as the kernel has it, and requests wait; the next supervisor
// takes it away.
func TestKilledWhileParking(t *testing.T) {
	t.Parallel()
	slow := func(version string) configuration {
		c := carried(version)
		c.sockets = strings.Replace(c.sockets, "keepalive = \"carry\"\n", "keepalive = \"carry\"\ncarry-wait = \"1s\"\n", 1)
		return c
	}
	s := start(t, slow("v0"))
	a, b, c := s.keep("v0"), s.keep("v0"), s.keep("v0")
	c.send("GET /?id=3&sleep=15s HTTP/1.1\r\nHost: x\r\n\r\n") // so that all are watched for as long as they may be
	reloading := s.reloadTo(slow("v1"))
	live, over := reloading.done, time.After(time.Hour)
	for going := true; going; { // requests come and go on it, also when the next version is live, and then one stays
		if version, err := b.ask("/?sleep=50ms"); err != nil || version != "v0" {
			t.Fatalf("%q, %v", version, err)
		}
		select {
		case <-live:
			live = nil
			over = time.After(300 * time.Millisecond)
		case <-over:
			going = false
		default:
		}
	}
	b.send("GET /?id=1&sleep=15s HTTP/1.1\r\nHost: x\r\n\r\n")
	parked := func() bool {
		a.send(getRequest, 2)
		a.c.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		answer, err := http.ReadResponse(a.br, nil)
		if err == nil {
			io.Copy(io.Discard, answer.Body)
		}
		return errors.Is(err, os.ErrDeadlineExceeded)
	}
	waitFor(t, "a request that waits", parked)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	a.c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
	if _, err := a.br.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("with the supervisor gone: %v; want the request to wait still, or this test does not see what it is for", err)
	}
	next := s.again()
	answer, _ := a.answer()
	t.Logf("%s answers", answer.Header.Get("X-Version"))
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%s", answer.Status)
	}
	for _, k := range []*kept{b, c} {
		if answer, _ := k.answer(); answer.Header.Get("X-Version") != "v0" {
			t.Errorf("%v", answer)
		}
	}
	next.settled()
}

// again starts the program once more, where one has ended without stopping its service.
func (s *supervisor) again() *supervisor {
	s.t.Helper()
	next := &supervisor{t: s.t, dir: s.dir, log: &buffer{}, exited: make(chan struct{}), client: s.client}
	next.cmd = exec.Command(program, "run", "--config", filepath.Join(s.dir, "test.toml"))
	next.cmd.Stdout, next.cmd.Stderr = next.log, next.log
	next.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := next.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		next.cmd.Wait()
		close(next.exited)
	}()
	s.t.Cleanup(func() {
		next.cmd.Process.Signal(unix.SIGQUIT)
		next.wait()
		if s.t.Failed() {
			s.t.Logf("the next supervisor's log:\n%s", next.log)
		}
	})
	return next
}

// waitFor blocks until ok.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok() && !t.Failed(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not seen: %s", what)
		}
	}
}
