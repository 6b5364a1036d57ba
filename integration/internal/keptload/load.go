package keptload

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
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config says what the clients do. Address and Clients must be given.
type Config struct {
	Address string
	Clients int // each with a connection, which lasts until the service says that it ends, or has closed it where no request was under way
	// Least and Most bound the pause between an answer and the next request; without them there is none. Closed is how many of the clients
	// make none all the same.
	Least, Most time.Duration
	Closed      int
	MaxBody     int  // bytes; 0 for requests without bodies alone
	NoBodies    bool // the service does not tell what came of them
	First       int  // number of the first request
}

const exchangeLimit = 20 * time.Second

// A Load is clients at work.
type Load struct {
	config Config
	next   atomic.Int64

	mu     sync.Mutex
	result Result

	stopping chan struct{}
	stop     func()
	all      sync.WaitGroup
}

// Start begins. The load goes on until it is stopped.
func Start(c Config) *Load {
	l := &Load{config: c, stopping: make(chan struct{}), result: Result{Reasons: map[string]int{}}}
	l.stop = sync.OnceFunc(func() { close(l.stopping) })
	l.next.Store(int64(c.First))
	for i := range c.Clients {
		l.all.Add(1)
		go func() {
			defer l.all.Done()
			for !l.over() {
				l.connection(i < c.Closed)
			}
		}()
	}
	return l
}

// Stop ends the load, once the requests under way have their answers, and returns what came of it. It may be called again.
func (l *Load) Stop() Result {
	l.stop()
	l.all.Wait()
	return l.Result()
}

// Result returns what came of it so far.
func (l *Load) Result() Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.result.clone()
	r.Next = int(l.next.Load()) + 1
	return r
}

func (l *Load) over() bool {
	select {
	case <-l.stopping:
		return true
	default:
		return false
	}
}

// pause waits before a request. It returns false if the load is over.
func (l *Load) pause() bool {
	c := l.config
	if c.Most <= c.Least {
		return !l.over()
	}
	select {
	case <-l.stopping:
		return false
	case <-time.After(c.Least + rand.N(c.Most-c.Least)):
		return true
	}
}

// connection sends requests on one connection until it ends.
func (l *Load) connection(closed bool) {
	c, err := net.DialTimeout("tcp", l.config.Address, exchangeLimit)
	if err != nil {
		l.fail("connect", err)
		// Whoever refuses one refuses the next.
		select {
		case <-l.stopping:
		case <-time.After(10 * time.Millisecond):
		}
		return
	}
	defer c.Close()
	br := bufio.NewReader(c)
	for !l.over() && (closed || l.pause()) {
		c.SetReadDeadline(time.Now().Add(time.Microsecond))
		if _, err := br.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
			if err == nil {
				l.fail("unasked", errors.New("an answer came without a request"))
				return
			}
			l.count(func(r *Result) { r.IdleClosed++ })
			return
		}
		began := time.Now()
		last, err := l.exchange(c, br)
		if err != nil {
			l.fail("exchange", err)
			return
		}
		took := time.Since(began)
		l.count(func(r *Result) {
			r.Answered++
			r.Slowest = max(r.Slowest, took)
			if last {
				r.Last = append(r.Last, took)
			} else {
				r.Ordinary.add(took)
			}
		})
		if last {
			return
		}
	}
}

// errWrong is why an answer belongs to another request.
var errWrong = errors.New("an answer to something else")

// exchange asks once, and checks that the answer is to that request.
func (l *Load) exchange(c net.Conn, br *bufio.Reader) (last bool, err error) {
	id := l.next.Add(1)
	size := l.size()
	var body []byte
	head := fmt.Sprintf("GET /?id=%d HTTP/1.1\r\nHost: x\r\n\r\n", id)
	if size >= 0 {
		body = make([]byte, size)
		// If it is taken for requests, that shows.
		copy(body, strings.Repeat(fmt.Sprintf("GET /?id=%s%d HTTP/1.1\r\nHost: x\r\n\r\n", smuggled, id), min(size/40+1, 100)))
		head = fmt.Sprintf("POST /?id=%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", id, size)
	}
	c.SetDeadline(time.Now().Add(exchangeLimit))
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(append([]byte(head), body...))
		wrote <- err
	}()
	answer, err := http.ReadResponse(br, nil)
	if err != nil {
		c.SetDeadline(time.Now())
		<-wrote
		return false, err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		c.SetDeadline(time.Now())
		<-wrote
		return false, err
	}
	if err := <-wrote; err != nil {
		return false, err
	}
	if answer.StatusCode != http.StatusOK {
		return false, fmt.Errorf("the answer is %s", answer.Status)
	}
	if got := answer.Header.Get("X-Id"); got != fmt.Sprint(id) {
		return false, fmt.Errorf("%w: it is for %q, and %d was asked", errWrong, got, id)
	}
	if got, want := answer.Header.Get("X-Body"), fmt.Sprintf("%d-%08x", len(body), crc32.ChecksumIEEE(body)); got != want && !l.config.NoBodies {
		return false, fmt.Errorf("%w: the body that was got is %s, and not %s", errWrong, got, want)
	}
	return answer.Close, nil
}

// size is that of the next request's body; negative for none.
func (l *Load) size() int {
	most := l.config.MaxBody
	if most == 0 {
		return -1
	}
	switch rand.IntN(4) {
	case 0:
		return -1
	case 1:
		return rand.IntN(most)
	default:
		return rand.IntN(most/64 + 1)
	}
}

func (l *Load) count(f func(*Result)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.result)
}

func (l *Load) fail(what string, err error) {
	wrong := errors.Is(err, errWrong)
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // without addresses
	}
	l.count(func(r *Result) {
		r.Failed++
		if wrong {
			r.Wrong++
		}
		if reason := what + ": " + err.Error(); len(r.Reasons) < maxReasons || r.Reasons[reason] > 0 {
			r.Reasons[reason]++
		}
	})
}
