package drill

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Every protocol, new and kept-alive: a deploy that disturbs nobody is clean, and nobody sees a request twice.
func TestClean(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T, h http.Handler) Config{
		"http": func(t *testing.T, h http.Handler) Config {
			l := listen(t)
			serve(t, l, h)
			return quick("http://" + l.Addr().String() + "/")
		},
		"unix": func(t *testing.T, h http.Handler) Config {
			path := socketPath(t)
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			serve(t, l, h)
			c := quick("http://svc/")
			c.Unix = path
			return c
		},
		"tls": func(t *testing.T, h http.Handler) Config {
			l := listen(t)
			serve(t, tls.NewListener(l, certified(t)), h)
			c := quick("https://" + l.Addr().String() + "/")
			c.Insecure = true
			return fewer(c)
		},
		"http2": func(t *testing.T, h http.Handler) Config {
			s := httptest.NewUnstartedServer(h)
			s.EnableHTTP2, s.TLS = true, certified(t)
			s.StartTLS()
			t.Cleanup(s.Close)
			c := quick(s.URL)
			c.HTTP2, c.Insecure = true, true
			return fewer(c)
		},
		"h2c": func(t *testing.T, h http.Handler) Config {
			l := listen(t)
			s := &http.Server{Handler: h, Protocols: new(http.Protocols)}
			s.Protocols.SetUnencryptedHTTP2(true)
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.Serve(l)
			}()
			t.Cleanup(func() {
				s.Close()
				<-done
			})
			c := quick("http://" + l.Addr().String() + "/")
			c.HTTP2 = true
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &versioned{}
			var mu sync.Mutex
			ids := map[string]int{}
			bodies := 0
			c := make(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				id := r.Header.Get("X-Request-Id")
				ids[id]++
				if string(body) == "order "+id && r.URL.Path == "/pay/"+id && r.Method == http.MethodPost {
					bodies++
				}
				mu.Unlock()
				v.ServeHTTP(w, r)
			}))
			c.URL = strings.TrimSuffix(c.URL, "/") + "/pay/{id}"
			c.Body = []byte("order {id}")
			c.Reload, c.Times = v.next, 2
			c.Executed = func(context.Context) ([]string, error) {
				mu.Lock()
				defer mu.Unlock()
				var all []string
				for id, n := range ids {
					for range n {
						all = append(all, "executed "+id+" in 3 ms")
					}
				}
				return all, nil
			}
			rep := judged(t, c, func() {
				mu.Lock()
				defer mu.Unlock()
				ids, bodies = map[string]int{}, 0
			})
			rep.expect(t, Clean)
			if len(ids) != rep.All.Requests+1 || bodies != len(ids) { // and the one before the run
				t.Errorf("%d ids and %d whole bodies came in of %d requests", len(ids), bodies, rep.All.Requests)
			}
			if !rep.ExecutedKnown || rep.ExecutedTwice > 0 {
				t.Errorf("executed: known %v, twice %d", rep.ExecutedKnown, rep.ExecutedTwice)
			}
			if rep.New.Calm.Requests < 50 || rep.Kept.Calm.Requests < 50 || rep.Disturbed.Requests < 50 || rep.Handoffs[1].Seen != seenAnswers {
				t.Errorf("%+v %+v %+v %+v", rep.New, rep.Kept, rep.Disturbed, rep.Handoffs[1])
			}
		})
	}
}

// Plain connections, with and without something to say.
func TestPlain(t *testing.T) {
	t.Parallel()
	for _, send := range []string{"", "hello {id}\n"} {
		t.Run(send, func(t *testing.T) {
			t.Parallel()
			path := socketPath(t)
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						if line, err := bufio.NewReader(c).ReadString('\n'); err == nil {
							fmt.Fprintf(c, "you said %s", line)
						}
					}()
				}
			}()
			c := quick("unix://" + path)
			c.Send, c.TrustCommand = []byte(send), true
			if send != "" {
				c.Expect = []byte("you said hello drill-")
			}
			c.Reload = func(context.Context, int) (string, error) {
				time.Sleep(50 * time.Millisecond)
				return "", nil
			}
			rep := judged(t, c, func() {})
			rep.expect(t, Clean)
			if rep.Kept.Calm.Requests > 0 || rep.Handoffs[0].Seen != seenCommand {
				t.Errorf("%+v %+v", rep.Kept, rep.Handoffs[0])
			}
		})
	}
}

// A service that is stopped and started again refuses meanwhile.
func TestRestartLoses(t *testing.T) {
	t.Parallel()
	v := &versioned{}
	l := listen(t)
	address := l.Addr().String()
	s := &http.Server{Handler: v}
	go s.Serve(l)
	c := quick("http://" + address + "/")
	c.Reload = func(ctx context.Context, n int) (string, error) {
		s.Close()
		time.Sleep(100 * time.Millisecond)
		again, err := net.Listen("tcp", address)
		if err != nil {
			return "", err
		}
		v.version.Add(1)
		s = &http.Server{Handler: v}
		go s.Serve(again)
		return "started again", nil
	}
	rep := must(t, c)
	s.Close()
	rep.expect(t, Lost)
	if len(rep.Kinds) == 0 || rep.Kinds[0].Kind != Refused || rep.Kinds[0].Requests < 4 || rep.Calm.Failed > 0 {
		t.Errorf("%+v, %d failed in calm time", rep.Kinds, rep.Calm.Failed)
	}
}

// A service that has closed a kept-alive connection under the request: net/http's client would send it again.
func TestNoRetryOnReusedConnection(t *testing.T) {
	t.Parallel()
	l := listen(t)
	var mu sync.Mutex
	requests, dropped := 0, 0
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				br := bufio.NewReader(c)
				for served := 0; ; served++ {
					req, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					mu.Lock()
					requests++
					if served == 3 {
						dropped++
					}
					mu.Unlock()
					if served == 3 {
						return // the request was taken, and no answer comes
					}
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Version: %s\r\n\r\n", req.Proto)
				}
			}()
		}
	}()
	c := quick("http://" + l.Addr().String() + "/")
	c.KeptOnly = true
	c.Reload = func(context.Context, int) (string, error) { return "", nil }
	rep := must(t, c)
	rep.expect(t, Lost)
	mu.Lock()
	defer mu.Unlock()
	if want := rep.All.Requests + 1; requests != want {
		t.Errorf("%d requests were sent, %d came in", want, requests)
	}
	if got := rep.All.Failed; got != dropped || got < 10 {
		t.Errorf("%d of %d failed, and %d got no answer", got, rep.All.Requests, dropped)
	}
}

// An idle connection that the service has closed is replaced, and that is no failure.
func TestIdleClosed(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint(secure), func(t *testing.T) {
			t.Parallel()
			v := &versioned{}
			s := httptest.NewUnstartedServer(v)
			// One in five, right after an answer, and not after some time: a request that is sent just then is lost for good.
			var answers atomic.Int64
			s.Config.ConnState = func(c net.Conn, state http.ConnState) {
				if state == http.StateIdle && answers.Add(1)%5 == 0 {
					c.Close()
				}
			}
			start := s.Start
			if secure {
				s.TLS, start = certified(t), s.StartTLS
			}
			start()
			t.Cleanup(s.Close)
			c := quick(s.URL)
			if secure {
				c = fewer(c)
			}
			c.Insecure = secure
			c.KeptOnly, c.Reload = true, v.next
			c.Connections = 40 // so that each is idle for a while
			rep := judged(t, c, func() {})
			rep.expect(t, Clean)
			if rep.IdleEnded < 20 {
				t.Errorf("%d connections were found ended", rep.IdleEnded)
			}
		})
	}
}

// The rate does not depend on the service: while it stalls requests go on falling due, and wait from then on.
func TestOpenLoop(t *testing.T) {
	t.Parallel()
	v := &versioned{}
	var stall sync.RWMutex
	l := listen(t)
	serve(t, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stall.RLock()
		defer stall.RUnlock()
		v.ServeHTTP(w, r)
	}))
	c := quick("http://" + l.Addr().String() + "/")
	c.Reload = func(ctx context.Context, n int) (string, error) {
		stall.Lock()
		time.Sleep(time.Second)
		stall.Unlock()
		return v.next(ctx, n)
	}
	rep := judged(t, c, func() {})
	rep.expect(t, Masked)
	slow := 0
	for _, q := range rep.Requests {
		if q.Latency() > 500*time.Millisecond {
			slow++
		}
	}
	if slow < 40 { // half a second at 100
		t.Errorf("%d requests waited for more than 500 ms; a closed loop sees a few alone", slow)
	}
}

// Between the client and the service somebody sends requests twice.
func TestExecutedTwice(t *testing.T) {
	t.Parallel()
	v := &versioned{}
	var mu sync.Mutex
	var ids []string
	l := listen(t)
	serve(t, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		ids = append(ids, r.Header.Get("X-Request-Id"))
		if len(ids) == 150 {
			ids = append(ids, ids[149])
		}
		mu.Unlock()
		v.ServeHTTP(w, r)
	}))
	c := quick("http://" + l.Addr().String() + "/")
	c.Reload = v.next
	c.Executed = func(context.Context) ([]string, error) {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(ids), nil
	}
	rep := must(t, c)
	rep.expect(t, Masked)
	if rep.ExecutedTwice != 1 {
		t.Errorf("%d were executed twice", rep.ExecutedTwice)
	}
}

// A check that cannot fail proves nothing.
func TestInconclusive(t *testing.T) {
	t.Parallel()
	// Requests are under way in it; nothing else says that nothing happened.
	nothing := func(context.Context, int) (string, error) {
		time.Sleep(50 * time.Millisecond)
		return "", nil
	}
	why := map[string]string{
		"nothing happens": "the same answered before and after", "nobody can tell": "nothing tells", "the reload fails": "which failed: no",
		"one of two": "no handoff happened in reload 2", "the limit": "it ran into its limit",
		"executed, of others": "and none of this one", "executed, an error": "no log",
	}
	for name, change := range map[string]func(v *versioned, c *Config){
		"nothing happens": func(v *versioned, c *Config) { c.Reload = nothing },
		"nobody can tell": func(v *versioned, c *Config) { c.Reload, c.VersionHeader = nothing, "X-Other" },
		"the reload fails": func(v *versioned, c *Config) {
			c.Reload = func(context.Context, int) (string, error) { return "", errors.New("no") }
		},
		"executed, of others": func(v *versioned, c *Config) {
			c.Reload = v.next
			c.Executed = func(context.Context) ([]string, error) { return []string{"drill-of-yesterday-1"}, nil }
		},
		"executed, an error": func(v *versioned, c *Config) {
			c.Reload = v.next
			c.Executed = func(context.Context) ([]string, error) { return nil, errors.New("no log") }
		},
		"one of two": func(v *versioned, c *Config) {
			c.Times = 2
			c.Reload = func(ctx context.Context, n int) (string, error) {
				if n == 1 {
					return v.next(ctx, n)
				}
				return "", nil
			}
		},
		"the limit": func(v *versioned, c *Config) {
			c.Limit = 5 * time.Second
			c.Reload = func(ctx context.Context, n int) (string, error) {
				<-ctx.Done()
				return v.next(ctx, n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &versioned{}
			l := listen(t)
			serve(t, l, v)
			c := quick("http://" + l.Addr().String() + "/")
			change(v, &c)
			rep := judged(t, c, func() {})
			rep.expect(t, Inconclusive)
			if !strings.Contains(rep.Reason, why[name]) {
				t.Errorf("the reason is %q, want %q", rep.Reason, why[name])
			}
		})
	}
}

// An interrupted run has a report of what was so far.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	v := &versioned{}
	l := listen(t)
	serve(t, l, v)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := quick("http://" + l.Addr().String() + "/")
	c.Times = 100
	c.Reload = func(ctx context.Context, n int) (string, error) {
		if n == 2 {
			cancel()
		}
		return v.next(ctx, n)
	}
	rep, err := Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	rep.expect(t, Inconclusive)
	if len(rep.Handoffs) != 2 || rep.All.Requests < 100 {
		t.Errorf("%d handoffs, %d requests", len(rep.Handoffs), rep.All.Requests)
	}
}

// What is wrong is said before anything is done.
func TestRefusals(t *testing.T) {
	t.Parallel()
	closed := listen(t)
	closed.Close()
	reload := func(context.Context, int) (string, error) {
		t.Error("it was deployed")
		return "", nil
	}
	for name, c := range map[string]Config{
		"not loopback":  {URL: "http://192.0.2.1/"},
		"scheme":        {URL: "ftp://127.0.0.1/"},
		"too fast":      {URL: "http://127.0.0.1:1/", Rate: MaxRate + 1},
		"too long":      {URL: "http://127.0.0.1:1/", Limit: MaxTime + 1},
		"no service":    {URL: "http://" + closed.Addr().String()},
		"no rate":       {URL: "http://127.0.0.1:1/", Rate: math.NaN()},
		"id given":      {URL: "http://127.0.0.1:1/", Header: http.Header{"X-Request-Id": {"1"}}},
		"line break":    {URL: "http://127.0.0.1:1/", Header: http.Header{"A": {"b\r\nc: d"}}},
		"nothing left":  {URL: "http://127.0.0.1:1/", NewOnly: true, KeptOnly: true},
		"no group":      {URL: "http://127.0.0.1:1/", VersionBody: "v1"},
		"http and send": {URL: "http://127.0.0.1:1/", Send: []byte("x")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Reload = reload
			if rep, err := Run(t.Context(), c); err == nil {
				t.Errorf("no error; %s: %s", rep.Verdict, rep.Reason)
			} else if t.Log(err); strings.Contains(err.Error(), "does not answer") != (name == "no service") {
				t.Error("it is refused for another reason")
			}
		})
	}
}
