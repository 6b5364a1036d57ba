package standalone

import (
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

	"github.com/zddsupervisor/zddsupervisor/integration/internal/keptload"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

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
			n := s.carryEnded()
			t.Logf("%+v", n)
			if n.Found() != 2 || n.Carried != 1 || n.Relayed != 1 || n.Lost > 0 {
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

// The old version does not run for a while, whatever it is doing.
func TestCarryFromOneThatStalls(t *testing.T) {
	s := start(t, carried("v0"))
	l := keptload.Start(keptload.Config{Address: s.address(), Clients: 20, Least: time.Millisecond, Most: 20 * time.Millisecond})
	defer l.Stop()
	for i := range 12 {
		stalled := stall(t, s.settled().PID, 300*time.Millisecond)
		time.AfterFunc(time.Duration(i)*50*time.Millisecond, stalled.begin)
		s.reloadTo(carried(fmt.Sprintf("v%d", i+1))).must()
		stalled.wait()
	}
	s.settled()
	r := l.Stop()
	st, err := s.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s; %+v", r, st.Carried)
	if r.Failed > 0 {
		t.Error("some were lost")
	}
}

// A service that ends its connections with shutdown(2) loses what waits on them; that is noticed, and they are left alone from then on, also by the
// next supervisor. That ends with the wish to carry them over.
func TestCarryFromOneThatShutsDown(t *testing.T) {
	t.Parallel()
	shuts := func(version string) configuration { return carried(version, "-serve=http-shut") }
	s := start(t, shuts("v0"))
	a, b := s.keep("v0"), s.keep("v0")
	s.reloadTo(shuts("v1")).must()
	a.ended()
	b.ended()
	if c := s.carriedOver("both", func(c *upgrade.Carried) bool { return c.Found() == 2 }); c.Left["shut"] != 2 || c.Carried != 0 {
		t.Errorf("%+v", c)
	}
	learned := func(s *supervisor) bool {
		return s.until("a status", func(*control.Status) bool { return true }).Uncarried != ""
	}
	waitFor(t, "what the supervisor has learned", func() bool { return learned(s) })
	s.settled()
	if log := s.log.String(); strings.Count(log, "shutdown(2)") != 1 {
		t.Errorf("the log does not say it once:\n%s", log)
	}
	// It may find other things, so its exit status is anything.
	if said, _ := exec.Command(program, "doctor", "--config", filepath.Join(s.dir, "test.toml")).Output(); !strings.Contains(string(said), "no connections are carried over any more: the service ends") {
		t.Errorf("doctor does not say it:\n%s", said)
	}
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	next := s.again()
	next.settled()
	if !learned(next) {
		t.Error("the next supervisor does not know it")
	}
	c := next.keep("v1")
	next.reloadTo(shuts("v2")).must()
	c.ended()
	next.settled()
	if st := next.until("a status", func(*control.Status) bool { return true }); st.Last.Carried != nil {
		t.Errorf("connections were parked again: %+v", st.Last.Carried)
	}
	for i, to := range []configuration{tested("v3"), carried("v4"), carried("v5")} { // it is put right meanwhile
		if i == 2 {
			next.keep("v4")
		}
		next.reloadTo(to).must()
		next.settled()
	}
	if c := next.carriedOver("a connection", func(c *upgrade.Carried) bool { return c.Found() > 0 }); c.Carried != 1 || learned(next) {
		t.Errorf("%+v", c)
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
