package standalone

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
)

const (
	datagramSocket = "[[socket]]\nname = \"main\"\nlisten = \"udp://127.0.0.1:0\"\n"
	apartSocket    = datagramSocket + "overlap = false\n"
)

// An asked is a client that sends a datagram again and again, and notes who has answered it.
type asked struct {
	t       *testing.T
	conn    net.Conn
	stop    chan struct{}
	sent    chan int // how many were, once it is over
	answers []string // the versions, in the order in which they answered
}

func (s *supervisor) askDatagrams() *asked {
	s.t.Helper()
	c, err := net.Dial("udp", strings.TrimPrefix(s.address(), "udp://"))
	if err != nil {
		s.t.Fatal(err)
	}
	a := &asked{t: s.t, conn: c, stop: make(chan struct{}), sent: make(chan int, 1)}
	go func() {
		next := time.NewTicker(20 * time.Millisecond) // so seldom that the sockets have room for what waits
		defer next.Stop()
		for n := 0; ; n++ {
			select {
			case <-next.C:
			case <-a.stop:
				a.sent <- n
				return
			}
			if _, err := c.Write([]byte(strconv.Itoa(n))); err != nil {
				a.t.Errorf("datagram %d: %v", n, err)
			}
		}
	}()
	s.t.Cleanup(func() { c.Close() })
	return a
}

// until reads answers until one is of this version.
func (a *asked) until(version string) {
	a.t.Helper()
	for {
		got := a.read()
		if got == "" {
			a.t.Fatalf("%s does not answer", version)
		}
		if got == version {
			return
		}
	}
}

func (a *asked) read() string {
	b := make([]byte, 100)
	a.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	n, err := a.conn.Read(b)
	if err != nil {
		return ""
	}
	version, _, _ := strings.Cut(string(b[:n]), " ")
	a.answers = append(a.answers, version)
	return version
}

// over stops the sending, and reads until every datagram was answered.
func (a *asked) over() {
	a.t.Helper()
	close(a.stop)
	for n := <-a.sent; len(a.answers) < n; {
		if a.read() == "" {
			a.t.Fatalf("%d datagrams were sent, and %d answered", n, len(a.answers))
		}
	}
}

// changes is how many times another version has answered than the one before.
func (a *asked) changes() (n int) {
	for i := 1; i < len(a.answers); i++ {
		if a.answers[i] != a.answers[i-1] {
			n++
		}
	}
	return n
}

// With overlap = false the old version is gone before the new one reads: every datagram is answered, and none by the old one after the
// first by the new one. Without it, both read for a time; that they can be seen to answer by turns is what this test could fail by.
func TestApart(t *testing.T) {
	t.Parallel()
	t.Run("apart", func(t *testing.T) {
		t.Parallel()
		c := configuration{command: []string{testservice, "-version=v0"}, sockets: apartSocket}
		s := start(t, c)
		client := s.askDatagrams()
		client.until("v0")
		const handoffs = 5
		for n := 1; n <= handoffs; n++ {
			old := s.live()
			c.command = []string{testservice, "-version=v" + strconv.Itoa(n), "-ready-after=100ms"}
			s.reloadTo(c).must()
			if now := s.settled(); now.Number != old.Number+1 {
				t.Errorf("generation %d is live after %d", now.Number, old.Number)
			}
			client.until("v" + strconv.Itoa(n))
		}
		client.over()
		if got := client.changes(); got != handoffs {
			t.Errorf("the answers have changed %d times in %d handoffs", got, handoffs)
		}
	})
	t.Run("overlapping", func(t *testing.T) {
		t.Parallel()
		c := configuration{command: []string{testservice, "-version=v0"}, sockets: datagramSocket}
		s := start(t, c)
		client := s.askDatagrams()
		client.until("v0")
		c.command = []string{testservice, "-version=v1", "-ready-after=2s"}
		s.reloadTo(c).must()
		s.settled()
		client.until("v1")
		client.over()
		if got := client.changes(); got < 2 {
			t.Errorf("the answers have changed %d times: two readers would take turns", got)
		}
	})
}

// A version that does not get ready, where the old one had to be stopped first: the old version is started again, and no datagram is lost.
func TestApartFails(t *testing.T) {
	t.Parallel()
	c := configuration{command: []string{testservice, "-version=v0"}, sockets: apartSocket}
	s := start(t, c)
	client := s.askDatagrams()
	client.until("v0")
	before := s.live()
	c.command = []string{testservice, "-exit-after=0s"}
	s.reloadTo(c).mustFail("before it was ready")
	s.until("the old version", func(st *control.Status) bool {
		return live(st) != nil && live(st).Number > before.Number && st.Current == nil
	})
	client.until("v0")
	client.over()
	if got := client.changes(); got != 0 {
		t.Errorf("the answers have changed %d times", got)
	}
}
