package carry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// Options say how connections are carried over.
type Options struct {
	Wait   time.Duration // how long an ordinary request takes at most; 250 ms by default
	LetGo  time.Duration // for the tree to close them once it was told to stop; 2 s by default
	Idle   time.Duration // how long one is held whose client sends nothing; 5 s by default
	Relays int           // requests that are passed on at once, others wait; 256 by default
	Signal unix.Signal   // with which the tree will be told to stop; SIGTERM by default
	Log    *slog.Logger  // nil for nobody
}

// Waits is how many times Options.Wait Park takes at most.
const Waits = (1 + parkWaits) * (1 + stoppedWaits)

const (
	defaultWait   = 250 * time.Millisecond
	defaultLetGo  = 2 * time.Second
	defaultIdle   = 5 * time.Second
	defaultRelays = 256
)

func (o Options) withDefaults() Options {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&o.Wait, defaultWait}, {&o.LetGo, defaultLetGo}, {&o.Idle, defaultIdle}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if o.Relays <= 0 {
		o.Relays = defaultRelays
	}
	if o.Signal == 0 {
		o.Signal = unix.SIGTERM
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Batch is connections that are carried over from one process tree.
type Batch struct {
	opts    Options
	process *child.Process // borrowed
	relays  *relays

	// These are for the goroutine in Park, and then for that in Run.
	caught  bool          // the main process has a handler for the signal
	catches map[int]bool  // whether those that had the connections have one, by pid
	blocks  bool          // somebody of the tree was seen to read with blocking calls
	waited  time.Duration // for those that are parked to come between two requests
	parked  []*conn
	held    []*conn           // taken over, and waiting for their requests
	letGo   map[int]time.Time // when a process was first seen to have closed one, by its pid
	told    time.Time         // when Run began
	hurried <-chan struct{}   // closed when those without a request are to be closed

	hurry func()

	mu     sync.Mutex
	counts Counts
	vain   int // of those that were kept: on which a request has waited
}

// A conn is one connection.
type conn struct {
	dup *child.Duplicate // owned

	// While it is parked.
	blocking bool      // whoever reads it may sleep in recv(2)
	caught   bool      // it may have begun to with the mark high, see rouse
	mark     int       // the low water mark that it has
	dammed   bool      // nothing arrives
	unfit    bool      // it cannot be dammed
	drops    uint32    // what the kernel had dropped before that
	missed   bool      // something was kept from arriving, and will be sent again
	flows    bool      // the dam has held up the rest of a request
	woken    uint64    // see history
	first    uint64    // what was read when it was seen first
	last     sample    // the newest
	moved    time.Time // when it was last seen to move
	answered bool      // see history
	verdict  verdict
	seen     time.Time // when somebody was last seen to have it

	// Once it is taken over.
	head  Beginning
	until time.Time // when it is closed if nothing comes
}

func (c *conn) raw() int { return c.dup.FD.Raw() }

// Counts tell what became of the connections so far. It may be called at any time.
func (b *Batch) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.counts.clone()
	if b.relays != nil {
		c.Relayed += int(b.relays.begun.Load())
		c.Lost += int(b.relays.lost.Load())
	}
	return c
}

// Futile says why there is nothing to be gained by parking the connections of such a tree: because of the way in which it ends they did not
// come to be carried over, and requests have waited in vain. It is Shut, Kept, or "" where that is not so. It is for when Run has returned.
func (b *Batch) Futile() Reason {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch carried := b.counts.Carried; {
	case b.counts.Left[Shut] > carried:
		return Shut
	case b.vain > 0 && carried == 0:
		return Kept
	}
	return ""
}

// Waited is how long Park has waited with connections parked. Requests that came meanwhile have waited as well.
func (b *Batch) Waited() time.Duration { return b.waited }

func (b *Batch) count(f func(*Counts)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.counts)
}

// Hurry has Run close what waits for a request. Requests that are being passed on get their answers. It may be called
// at any time, and again.
func (b *Batch) Hurry() { b.hurry() }

// newBatch returns one without connections.
func newBatch(p *child.Process, o Options) *Batch {
	o = o.withDefaults()
	hurried, hurry := context.WithCancel(context.Background())
	return &Batch{opts: o, process: p, letGo: make(map[int]time.Time), catches: make(map[int]bool), hurried: hurried.Done(), hurry: hurry}
}
