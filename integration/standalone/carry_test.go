package standalone

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// carrySocket is a socket whose connections can be carried over.
const carrySocket = steeredSocket + "protocol = \"http/1\"\n"

// carried is a service with its kept-alive connections carried over.
func carried(version string, flags ...string) configuration {
	c := tested(version, flags...)
	c.sockets = carrySocket
	return c.with("[handoff]\nkeepalive = \"carry\"\n")
}

// A keptLoad is clients with a kept-alive connection each, which never send anything twice. Each connection lasts until the service says
// that it ends, or has closed it where no request was under way.
type keptLoad struct {
	t       *testing.T
	address string
	clients int
	pause   func() time.Duration // between an answer and the next request; nil for none
	body    func() int           // the size of a body; negative for a GET; nil for always that

	answered, failed, closed atomic.Int64
	next                     atomic.Int64
	mu                       sync.Mutex
	reasons                  map[string]int
	slowest                  time.Duration
	last                     []time.Duration // latencies of the answers that end their connections

	stopping atomic.Bool
	all      sync.WaitGroup
}

func (l *keptLoad) start() {
	l.reasons = make(map[string]int)
	for range l.clients {
		l.all.Add(1)
		go func() {
			defer l.all.Done()
			for !l.stopping.Load() {
				l.connection()
			}
		}()
	}
}

// connection sends requests on one connection until it ends.
func (l *keptLoad) connection() {
	c, err := net.DialTimeout("tcp", l.address, 10*time.Second)
	if err != nil {
		l.fail("connect", err)
		return
	}
	defer c.Close()
	br := bufio.NewReader(c)
	for !l.stopping.Load() {
		if l.pause != nil {
			time.Sleep(l.pause())
		}
		c.SetReadDeadline(time.Now().Add(time.Microsecond))
		if _, err := br.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
			if err == nil {
				l.fail("unasked", errors.New("an answer came without a request"))
				return
			}
			l.closed.Add(1)
			return
		}
		began := time.Now()
		last, err := l.exchange(c, br)
		if err != nil {
			l.fail("exchange", err)
			return
		}
		l.answered.Add(1)
		l.mu.Lock()
		l.slowest = max(l.slowest, time.Since(began))
		if last {
			l.last = append(l.last, time.Since(began))
		}
		l.mu.Unlock()
		if last {
			return
		}
	}
}

// exchange asks once, and checks that the answer is to that request.
func (l *keptLoad) exchange(c net.Conn, br *bufio.Reader) (last bool, err error) {
	id := l.next.Add(1)
	size := -1
	if l.body != nil {
		size = l.body()
	}
	var body []byte
	head := fmt.Sprintf("GET /?id=%d HTTP/1.1\r\nHost: x\r\n\r\n", id)
	if size >= 0 {
		body = make([]byte, size)
		copy(body, strings.Repeat(fmt.Sprintf("GET /?id=999999%d HTTP/1.1\r\nHost: x\r\n\r\n", id), min(size/40+1, 100)))
		head = fmt.Sprintf("POST /?id=%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", id, size)
	}
	c.SetDeadline(time.Now().Add(20 * time.Second))
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(append([]byte(head), body...))
		wrote <- err
	}()
	answer, err := http.ReadResponse(br, nil)
	if err != nil {
		return false, errors.Join(err, <-wrote)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return false, err
	}
	if err := <-wrote; err != nil {
		return false, err
	}
	if got := answer.Header.Get("X-Id"); got != fmt.Sprint(id) || answer.StatusCode != http.StatusOK {
		return false, fmt.Errorf("%s with the id %q answers request %d", answer.Status, got, id)
	}
	if want := fmt.Sprintf("%d-%08x", len(body), crc32.ChecksumIEEE(body)); answer.Header.Get("X-Body") != want {
		return false, fmt.Errorf("the body that was got is %s, and not %s", answer.Header.Get("X-Body"), want)
	}
	return answer.Close, nil
}

func (l *keptLoad) fail(what string, err error) {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // without addresses
	}
	l.failed.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reasons[what+": "+err.Error()]++
}

func (l *keptLoad) stop() {
	l.stopping.Store(true)
	l.all.Wait()
}

func (l *keptLoad) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := fmt.Sprintf("%d answered, %d failed %v, %d idle closed, slowest %s", l.answered.Load(), l.failed.Load(), l.reasons, l.closed.Load(), l.slowest)
	if n := len(l.last); n > 0 {
		slices.Sort(l.last)
		text += fmt.Sprintf("; the %d last on their connections took p50 %s, p90 %s, max %s", n, l.last[n/2], l.last[n*9/10], l.last[n-1])
	}
	return text
}

// executedTwice returns the ids that are more than once in the service's journal, and how many ids there are.
func executedTwice(t *testing.T, journal string) (twice []string, all int) {
	t.Helper()
	text, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	times := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		if _, rest, ok := strings.Cut(line, "/?id="); ok {
			id, _, _ := strings.Cut(rest, " ")
			times[id]++
		}
	}
	for id, n := range times {
		if n > 1 || strings.HasPrefix(id, "999999") {
			twice = append(twice, id)
		}
	}
	return twice, len(times)
}

// A keptPassage is a keptLoad through handoffs.
type keptPassage struct {
	service  func(version string, flags ...string) configuration
	flags    []string
	clients  int
	handoffs int
	pause    func() time.Duration
	body     func() int
}

func (p keptPassage) run(t *testing.T) *keptLoad {
	t.Helper()
	journal := filepath.Join(t.TempDir(), "journal")
	service := func(version string) configuration { return p.service(version, append(p.flags, "-log="+journal)...) }
	s := start(t, service("v0"))
	l := &keptLoad{t: t, address: s.address(), clients: p.clients, pause: p.pause, body: p.body}
	l.start()
	defer l.stop()
	for i := range p.handoffs {
		time.Sleep(100 * time.Millisecond)
		s.reloadTo(service(fmt.Sprintf("v%d", i+1))).must()
	}
	s.settled()
	l.stop()
	st, err := s.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s; %+v", l, st.Carried)
	for line := range strings.Lines(s.log.String()) {
		if _, took, ok := strings.Cut(line, " parked="); ok {
			t.Logf("parked for %s", strings.TrimSpace(took))
		}
	}
	twice, all := executedTwice(t, journal)
	if len(twice) > 0 {
		t.Errorf("%d requests were executed twice, or never sent: %v", len(twice), twice[:min(10, len(twice))])
	}
	if all < int(l.answered.Load()) {
		t.Errorf("%d requests were answered, and %d executed", l.answered.Load(), all)
	}
	return l
}

func (p keptPassage) mustBeClean(t *testing.T) {
	t.Helper()
	if l := p.run(t); l.failed.Load() > 0 || l.answered.Load() < int64(p.handoffs*p.clients) {
		t.Errorf("%s", l)
	}
}

func pauses(least, most time.Duration) func() time.Duration {
	return func() time.Duration { return least + time.Duration(rand.Int64N(int64(most-least))) }
}

func bodies(most int) func() int {
	return func() int {
		switch rand.IntN(4) {
		case 0:
			return -1
		case 1:
			return rand.IntN(most)
		default:
			return rand.IntN(most/64 + 1)
		}
	}
}

// Kept-alive clients lose nothing, whatever they do when the versions change; without it some do, so that the same load shows that it
// can.
func TestCarryLosesNothing(t *testing.T) {
	for name, p := range map[string]keptPassage{
		"closed loop": {},
		"pauses":      {pause: pauses(time.Millisecond, 50*time.Millisecond)},
		"bodies":      {pause: pauses(0, 5*time.Millisecond), body: bodies(1 << 20)},
		"workers":     {flags: []string{"-workers=3"}},
		"slow":        {flags: []string{"-work=20ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			p.service, p.clients, p.handoffs = carried, 20, 10
			p.mustBeClean(t)
		})
	}
	t.Run("without", func(t *testing.T) {
		l := keptPassage{service: tested, clients: 20, handoffs: 10}.run(t)
		if l.failed.Load() == 0 {
			t.Error("nothing failed: this load cannot show that carrying makes a difference")
		}
	})
}
