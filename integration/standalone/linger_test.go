package standalone

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A kept is a connection for many requests.
type kept struct {
	t  *testing.T
	c  net.Conn
	br *bufio.Reader
}

// keep opens a connection, and asks on it once.
func (s *supervisor) keep(version string) *kept {
	s.t.Helper()
	c, err := net.DialTimeout("tcp", s.address(), 10*time.Second)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	k := newKept(s.t, c)
	k.answeredBy(version)
	return k
}

func newKept(t *testing.T, c net.Conn) *kept { return &kept{t, c, bufio.NewReader(c)} }

// ask asks on the connection, and returns the version that answers.
func (k *kept) ask(path string) (version string, err error) {
	k.c.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprintf(k.c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	answer, err := http.ReadResponse(k.br, nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.Header.Get("X-Version"), err
}

// answeredBy asks on the connection.
func (k *kept) answeredBy(version string) {
	k.t.Helper()
	if got, err := k.ask("/"); err != nil || got != version {
		k.t.Errorf("%q (%v) answers on a connection of %s", got, err, version)
	}
}

// ended blocks until the service has closed the connection.
func (k *kept) ended() {
	k.t.Helper()
	k.c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := k.br.ReadByte(); err != io.EOF {
		k.t.Errorf("the connection does not end: %v", err)
	}
}

func linger(d string) string { return fmt.Sprintf("[drain]\nlinger = %q\n", d) }

// draining waits until a generation drains with so many connections.
func (s *supervisor) draining(generation, connections int) *control.Status {
	s.t.Helper()
	return s.until(fmt.Sprintf("generation %d draining with %d connections", generation, connections), func(st *control.Status) bool {
		for _, g := range st.Generations {
			if g.Number == generation {
				return g.Role == upgrade.RoleDraining && g.Connections == connections
			}
		}
		return false
	})
}

// told is what the log says when the wait is over.
const told = "telling a generation to stop"

// The old version serves its connections until the last has gone, and only then it is told to stop.
func TestLinger(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0").with(linger("10m")))
	var clients []*kept
	for range 5 {
		clients = append(clients, s.keep("v0"))
	}
	s.reloadTo(tested("v1").with(linger("10m"))).must()
	s.draining(1, 5)
	s.allBy("v1")
	for i, c := range clients {
		c.answeredBy("v0")
		c.c.Close()
		if i < len(clients)-1 {
			s.draining(1, len(clients)-i-1)
		}
		if s := s.log.String(); i < len(clients)-1 && strings.Contains(s, told) {
			t.Errorf("told to stop with %d connections", len(clients)-i-1)
		}
	}
	s.settled()
	if log := s.log.String(); !strings.Contains(log, told+"\" generation=1 connections=0") {
		t.Error("the log does not say when it was told to stop")
	}
}

// The wait ends when it has lasted as long as it may, too.
func TestLingerEnds(t *testing.T) {
	t.Parallel()
	const limit = 700 * time.Millisecond
	s := start(t, tested("v0").with(linger(limit.String())))
	client := s.keep("v0")
	began := time.Now()
	s.reloadTo(tested("v1")).must()
	client.ended()
	if took := time.Since(began); took < limit {
		t.Errorf("it ended after %s", took)
	}
	s.settled()
	if log := s.log.String(); !strings.Contains(log, told+"\" generation=1 connections=1") {
		t.Error("the log does not say that there was a connection left")
	}
}

// The next handoff needs the place of a generation that lingers: that one is told to stop, and the one after it lingers on.
func TestLingerCutShort(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0").with(linger("10m")))
	load := s.loaded(2)
	first := s.keep("v0")
	s.reloadTo(tested("v1").with(linger("10m"))).must()
	s.draining(1, 1)
	second := s.keep("v1")
	s.reloadTo(tested("v2").with(linger("10m"))).must()
	first.ended()
	s.draining(2, 1)
	second.answeredBy("v1")
	s.allBy("v2")
	st := s.until("two generations", func(st *control.Status) bool { return len(st.Generations) == 2 })
	if n := st.Generations[0].Number; n != 2 {
		t.Errorf("generation %d lingers", n)
	}
	second.c.Close()
	s.settled()
	if result := load.Stop(); result.Failed() > 0 {
		t.Errorf("%s", result)
	}
}

// A stop does not wait for connections.
func TestStopInLinger(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0").with(linger("10m")))
	client := s.keep("v0")
	s.reloadTo(tested("v1")).must()
	s.draining(1, 1)
	s.stop()
	client.ended()
}
