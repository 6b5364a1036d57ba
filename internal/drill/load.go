package drill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Request is what became of one request. Its times count from the run's beginning.
type Request struct {
	Due   time.Duration // when it should have been sent
	Start time.Duration // when it was
	End   time.Duration // when it was answered or had failed
	Kind  Kind
	Kept  bool // it used a kept-alive connection
	who   int16
}

// Latency counts from when the request was due.
func (q *Request) Latency() time.Duration { return q.End - q.Due }

// errTooMany is why a due request was never sent.
var errTooMany = fmt.Errorf("%d requests were under way already", maxInFlight)

// load sends requests. It owns its goroutines, which stop waits for, and its connections.
type load struct {
	dialer *dialer
	pool   *pool
	config *Config
	prefix string // of the ids
	begin  time.Time
	pulse  *pulse // while it runs
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu       sync.Mutex // guards what follows
	requests []Request  // in the order in which they ended
	answered []string   // who answered, in the order of their first answers
	byWho    map[string]int16
	last     []time.Duration // of each that answered, when it last did
	examples [kinds]string   // the first failure of each kind
	counts   [kinds]int
	inFlight int
}

// newLoad makes a load that is not started yet.
func newLoad(ctx context.Context, c *Config) (*load, error) {
	t, err := c.target(ctx)
	if err != nil {
		return nil, err
	}
	r, err := newRequest(c, t)
	if err != nil {
		return nil, err
	}
	re, err := c.bodyPattern()
	if err != nil {
		return nil, err
	}
	d := &dialer{target: t, request: r, body: re, config: c}
	return &load{
		dialer: d, pool: &pool{dialer: d, size: c.Connections}, config: c,
		prefix: fmt.Sprintf("drill-%08x-", rand.Uint32()), byWho: map[string]int16{},
	}, nil
}

// try sends one request before the load begins.
func (l *load) try() error {
	a := l.exchangeNew(l.prefix+"try", time.Now().Add(l.config.Timeout))
	if a.kind != OK {
		return fmt.Errorf("%s does not answer as it should, and a drill begins with a service that works: %s (%w)%s", l.config.URL, a.kind, a.err, l.hint(a.kind))
	}
	return nil
}

// hint says what the user may have to change where the first request fails like this.
func (l *load) hint(k Kind) string {
	switch {
	case k == Refused:
		return "; is it started, and is this its address?"
	case k == Handshake:
		return "; does it speak TLS here? --ca trusts a certificate of your own, --insecure any"
	case k == BadStatus:
		return "; give a path, --method, --header or --data that it answers with 2xx or 3xx"
	case l.dialer.protocol == http2 && k != Timeout && k != Local:
		return "; does it speak HTTP/2 here?"
	case l.dialer.protocol == http1 && l.dialer.tls == nil && (k == BadAnswer || k == Closed || k == ReadReset):
		return "; does it speak HTTP/1.1 here, without TLS?"
	}
	return ""
}

// start begins to send, until ctx ends or stop is called.
func (l *load) start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(ctx)
	l.begin = time.Now()
	l.pulse = startPulse(l.begin)
	l.all.Add(1)
	go func() {
		defer l.all.Done()
		l.schedule(ctx)
	}()
}

// stop blocks until the requests under way are answered or timed out.
func (l *load) stop() {
	l.cancel()
	l.all.Wait()
	l.pulse.stop()
	l.pool.close()
}

// schedule starts each request when it is due, whatever became of the others.
func (l *load) schedule(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := 0; ; i++ {
		due := time.Duration(float64(i) / l.config.Rate * float64(time.Second))
		if wait := due - time.Since(l.begin); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		} else if ctx.Err() != nil {
			return
		}
		kept := i%2 == 1
		if l.dialer.protocol == plain || l.config.NewOnly {
			kept = false
		} else if l.config.KeptOnly {
			kept = true
		}
		q := Request{Due: due, Kept: kept}
		if !l.enter() {
			q.Start = time.Since(l.begin)
			l.record(q, failure(Local, errTooMany))
			continue
		}
		l.all.Add(1)
		go func() {
			defer l.all.Done()
			q.Start = time.Since(l.begin)
			l.pulse.note(q.Due, q.Start)
			id, deadline := fmt.Sprint(l.prefix, i), l.begin.Add(q.Start+l.config.Timeout)
			var a answer
			if kept {
				a = l.exchangeKept(id, deadline)
			} else {
				a = l.exchangeNew(id, deadline)
			}
			l.record(q, a)
			l.leave()
		}()
	}
}

// enter counts a request under way, unless there are too many.
func (l *load) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight >= maxInFlight {
		return false
	}
	l.inFlight++
	return true
}

func (l *load) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
}

// exchangeNew makes a request on a connection of its own.
func (l *load) exchangeNew(id string, deadline time.Time) answer {
	c, kind, err := l.dialer.dial(deadline, true)
	if err != nil {
		return failure(kind, err)
	}
	defer c.close()
	return c.exchange(id, deadline)
}

// exchangeKept makes a request on a kept-alive connection.
func (l *load) exchangeKept(id string, deadline time.Time) answer {
	c, kind, err := l.pool.take(deadline)
	if err != nil {
		return failure(kind, err)
	}
	a := c.exchange(id, deadline)
	l.pool.put(c, a.over)
	return a
}

// record notes what became of a request, which ends now.
func (l *load) record(q Request, a answer) {
	q.End = time.Since(l.begin)
	q.Kind, q.who = a.kind, -1
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[a.kind]++
	if a.kind != OK && l.examples[a.kind] == "" && a.err != nil {
		l.examples[a.kind] = printable(a.err.Error())
	}
	if a.who != "" {
		q.who = l.whoLocked(a.who)
		l.last[q.who] = q.End
	}
	l.requests = append(l.requests, q)
}

// maxWho bounds how many are told apart; a header that differs in each answer names nobody.
const maxWho = 1000

// maxName bounds a name in bytes; what a pattern finds may be a whole page.
const maxName = 100

func (l *load) whoLocked(name string) int16 {
	if len(name) > maxName {
		name = name[:maxName] + "..."
	}
	name = printable(name)
	if i, ok := l.byWho[name]; ok {
		return i
	}
	if len(l.answered) >= maxWho {
		name = "others"
		if i, ok := l.byWho[name]; ok {
			return i
		}
	}
	i := int16(len(l.answered))
	l.byWho[name] = i
	l.answered = append(l.answered, name)
	l.last = append(l.last, 0)
	return i
}

// snapshot is what a load has done so far.
type snapshot struct {
	done, failed, inFlight int
	// p50 and worst are of the requests that ended in the last second.
	p50, worst time.Duration
	answered   []string // in that time
}

func (l *load) snapshot() snapshot {
	now := time.Since(l.begin)
	l.mu.Lock()
	defer l.mu.Unlock()
	s := snapshot{done: len(l.requests), failed: len(l.requests) - l.counts[OK], inFlight: l.inFlight}
	var recent []time.Duration
	for i := len(l.requests) - 1; i >= 0 && now-l.requests[i].End < time.Second; i-- {
		recent = append(recent, l.requests[i].Latency())
	}
	slices.Sort(recent)
	if n := len(recent); n > 0 {
		s.p50, s.worst = recent[n/2], recent[n-1]
	}
	for i, last := range l.last {
		if now-last < time.Second {
			s.answered = append(s.answered, l.answered[i])
		}
	}
	return s
}
