package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/carry"
)

// Errors that the methods of a Supervisor return, beside *HandoffError.
var (
	// ErrStopping says that the supervisor is ending, and takes no requests any more.
	ErrStopping = errors.New("the supervisor is stopping")
	// ErrFirstStart is what Run returns with Options.FailFast, wrapped with the reason.
	ErrFirstStart = errors.New("the first start failed")
)

// Manager is who is told how the supervisor fares: systemd, or nobody. See sd_notify(3) for the meanings. The methods
// must not block for long.
type Manager interface {
	Ready(status string) error
	Reloading(status string) error
	Stopping(status string) error
	Status(status string) error
	ExtendTimeout(by time.Duration) error
	Watchdog() error
}

// Options are what a Supervisor is made from.
type Options struct {
	// Plan is what the first generation is started from.
	Plan *Plan
	// Load reads the configuration anew, for each handoff. It may block on the file system.
	Load func() (*Plan, error)

	Reaper  *child.Reaper           // borrowed; starts and waits for every process
	Cgroups *child.Delegation       // borrowed; makes a cgroup for each generation; nil where none is delegated
	Systemd map[string][]*fdpass.FD // borrowed; the sockets that a .socket unit passed in, by name
	Manager Manager                 // never nil; a *systemd.Notifier that is nil inside does nothing
	Log     *slog.Logger            // nil for nobody

	Observers []Observer // borrowed; who else is told what has happened

	// Good returns the releases to which a rollback may go from one, the best first. It must not block. nil knows of none.
	Good func(from string) []string

	// Name is the service's, see fdpass.OpenOptions.
	Name string

	// Handoffs and Number are those of the newest handoff and the newest generation that there have been, as far as is known:
	// numbers go on from there, or from Saved's if those are higher.
	Handoffs, Number int

	// RuntimeDirectory is where each generation's notify socket is made.
	RuntimeDirectory string

	// StatePath is where everything is written down that the next supervisor needs to take the service over if this one
	// ends without stopping it; "" for nowhere.
	StatePath string
	// Saved is what the supervisor before this one has written down; nil for nothing.
	Saved *Saved
	// Restore makes a plan of its source. It is needed with Saved.
	Restore func(source json.RawMessage) (*Plan, error)
	// Store keeps sockets for the time without a supervisor; nil for nobody.
	Store Store
	// Stored are the sockets that the Store has given back, by name. Run takes them.
	Stored map[string]*fdpass.FD
	// Adopted is called once, when everything that Saved tells of was found, and before anything is done with it; nil for
	// nothing. If it returns an error, Run returns that, and leaves everything as it is. It may block.
	Adopted func() error
	// KeepSockets leaves the sockets with the Store when Run ends, with their files, for the next supervisor.
	KeepSockets bool

	// FailFast ends Run with ErrFirstStart if the first generation does not get ready, instead of trying again.
	FailFast bool
	// SignalHold is how long a handoff that only a signal asked for waits before it reads anything, so that a request
	// that belongs to the same reload can join it: systemd 253 to 258 send the reload signal first and run ExecReload=
	// right after it. 0 means not at all.
	SignalHold time.Duration
	// WatchdogEvery is how often the manager wants to hear WATCHDOG=1; 0 means never. It is said by the goroutine that
	// owns the state, and so only while that one works.
	WatchdogEvery time.Duration
}

// A Supervisor runs one service: it owns its sockets and its generations, and hands off from one to the next.
//
// One goroutine, the one that calls Run, owns all of its state. Everything else, requests, steps that block, processes
// that end, comes to it as a function in its inbox.
type Supervisor struct {
	opts  Options
	log   *slog.Logger
	inbox chan func()
	ended chan struct{}  // closed when Run is over and the inbox is not read any more
	tasks sync.WaitGroup // every goroutine that Run has started

	// All below is for the goroutine in Run alone.

	began   time.Time
	state   State
	plan    *Plan          // what the live generation was started from; restarts use it
	bound   []fdpass.Bound // its sockets, in its order
	first   bool           // no generation has been live yet
	failure error          // why Run ends, where it is not because somebody asked
	killing bool           // nothing may drain any more

	generations map[int]*generation // all that have a process, by number
	live        *generation
	number      int // the newest generation's
	orphan      int // the generation that crashed on its seat, which its replacement takes; 0 if none

	hand      *handoff // what is under way, or nil
	step      *step    // the step of it that runs, or nil
	waiting   []*ticket
	handoffs  int // how many have begun
	last      *Record
	lastAsked *Record // the last that somebody asked for
	lastRead  uint64  // when that one read the configuration, see bootTicks
	restarts  backoff
	down      string    // why nothing is live, where it is so
	repairs   backoff   // of a live generation that nobody gets to
	repairAt  time.Time // when the next of them may begin
	carriers  carriers
	uncarried carry.Reason // why no connections are carried over any more, see carriedOver; "" while they are
	leaving   []departure  // seats to give up once no step uses the sockets
	pruning   bool         // old releases are being removed

	lastRelease string   // of the last generation that was live
	goBack      []string // releases, of which the next restart takes the first that is fit; none for the current one

	hooking   context.Context // of the commands that are run behind handoffs
	endHooks  context.CancelFunc
	lastHook  chan struct{} // closed when the last of them has ended; nil if there was none
	hooksLeft int           // how many have not ended
	deferred  []func()      // from the inbox, while the owner had to wait for a step

	attending sync.WaitGroup  // of tasks, those that have to do with a generation that was started
	kept      []Event         // that wait until it is known which supervisor has the service
	parted    bool            // the service is left to another supervisor
	over      bool            // Run ends, and leaves everything as it is
	released  []fdpass.Socket // those that were left with it
	unheeded  []unix.Signal   // what came too late

	keeper      keeper
	clock       clock
	boot        string // the kernel's boot id
	persisted   []byte // what the state file has
	unpersisted string // why it could not be written last time
}

// New returns a supervisor that does nothing until Run is called.
func New(opts Options) *Supervisor {
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	kept := make(map[string]bool)
	for id := range opts.Stored {
		kept[id] = true
	}
	warn := func(err error) { log.Warn("the service manager does not keep a socket", "cause", err) }
	return &Supervisor{
		keeper:      keeper{store: opts.Store, kept: kept, warn: warn, log: log},
		clock:       newClock(),
		boot:        bootID(),
		opts:        opts,
		log:         log,
		inbox:       make(chan func(), 16),
		ended:       make(chan struct{}),
		plan:        opts.Plan,
		first:       true,
		carriers:    newCarriers(),
		generations: make(map[int]*generation),
	}
}

// Run starts the service and supervises it until Stop or Kill was called and no process of it is left. It ends by
// itself only at the very beginning: with the *fdpass.OpenError, wrapped, if the sockets cannot be opened, and with
// Options.FailFast if the first start fails. It blocks, and may be called once. When it returns, the sockets
// are closed and every goroutine has ended.
func (s *Supervisor) Run() error {
	s.began = time.Now()
	s.hooking, s.endHooks = context.WithCancel(context.Background())
	defer s.endHooks()
	beat := newTicker(s.opts.WatchdogEvery)
	defer beat.Stop()
	busy := newTicker(extendEvery)
	defer busy.Stop()
	look := newTicker(tendEvery)
	defer look.Stop()

	s.beginWith(s.opts.Saved)
	s.persist()
	for s.state.Phase != Stopped && !s.over {
		if len(s.deferred) > 0 {
			f := s.deferred[0]
			s.deferred = s.deferred[1:]
			f()
			continue
		}
		select {
		case f := <-s.inbox:
			f()
		case <-beat.C:
			s.tell(s.opts.Manager.Watchdog())
		case <-busy.C:
			s.extend()
		case <-look.C:
			s.tend()
		}
		s.catchUp()
		if s.state.Phase == Stopping && len(s.generations) == 0 && s.step == nil && s.hooksLeft == 0 {
			s.fire(AllGone)
		}
	}
	close(s.ended)
	s.drainInbox()
	s.tasks.Wait()
	s.carriers.cut()
	s.unheed()
	return s.failure
}

// beginWith begins with what another supervisor has left, or anew.
func (s *Supervisor) beginWith(saved *Saved) {
	s.first, s.number, s.handoffs = true, s.opts.Number, s.opts.Handoffs
	if saved != nil {
		s.takeOver(saved)
	}
	closeEach(s.opts.Stored) // those that are still of use were duplicated
	if s.first && !s.over {
		s.fire(RetryDue)
	}
}

// extendEvery is how often the manager is asked for more time while something is under way, and extendBy how much.
const (
	extendEvery = 5 * time.Second
	extendBy    = 15 * time.Second
)

// extend keeps the manager's limits on starting, reloading and stopping away: the limits that count are the
// configuration's, and each of them is watched here.
func (s *Supervisor) extend() {
	if s.state.Phase != Idle || s.first {
		s.tell(s.opts.Manager.ExtendTimeout(extendBy))
	}
}

// tell logs that the manager could not be told something; nothing else can be done about it.
func (s *Supervisor) tell(err error) {
	if err != nil {
		s.log.Warn("cannot notify the service manager", "cause", err)
	}
}

// post hands f to the goroutine that owns the state. It blocks until there is room, and reports false if Run is over
// and f will never run.
func (s *Supervisor) post(f func()) bool {
	select {
	case s.inbox <- f:
		return true
	case <-s.ended:
		return false
	}
}

// ask runs f on the goroutine that owns the state and waits for it. It reports false if that will not happen.
func (s *Supervisor) ask(ctx context.Context, f func()) bool {
	done := make(chan struct{})
	if !s.post(func() { f(); close(done) }) {
		return false
	}
	select {
	case <-done:
		return true
	case <-s.ended:
	case <-ctx.Done():
	}
	return false
}

// catchUp runs what came in while the owner had to wait for a step.
func (s *Supervisor) catchUp() {
	for len(s.deferred) > 0 {
		f := s.deferred[0]
		s.deferred = s.deferred[1:]
		f()
	}
}

// drainInbox answers what came in after the last look: nothing may wait for ever.
func (s *Supervisor) drainInbox() {
	for {
		select {
		case f := <-s.inbox:
			f()
		default:
			return
		}
	}
}

// attend runs f in a goroutine that has to do with a generation, and ends when that one is left to another supervisor.
func (s *Supervisor) attend(f func()) {
	s.attending.Add(1)
	s.spawn(func() {
		defer s.attending.Done()
		f()
	})
}

// spawn runs f in a goroutine that Run waits for before it returns.
func (s *Supervisor) spawn(f func()) {
	s.tasks.Add(1)
	go func() {
		defer s.tasks.Done()
		f()
	}()
}

// fire feeds an event to the machine, performs what it answers, and returns that.
func (s *Supervisor) fire(e Event) Action {
	from := s.state
	to, action := next(from, e)
	if action == Illegal {
		s.log.Error("an event came where it cannot: please report this", "state", from.String(), "event", e.String())
		return action
	}
	s.state = to
	if from.Phase == Idle && to.Phase != Idle {
		s.extend() // the manager's limit may be shorter than the time to the next tick
	}
	if from.Phase < Stopping && to.Phase == Stopping {
		s.log.Info("stopping", "cause", e.String())
	}
	if from != to {
		s.log.Debug("transition", "from", from.String(), "to", to.String(), "event", e.String(), "action", action.String())
	}
	for _, a := range []struct {
		action Action
		do     func()
	}{
		{Refuse, s.refuse},
		{Hasten, s.hasten},
		{Abort, s.abort},
		{Rollback, s.rollback},
		{Complete, s.complete},
		{Halt, func() { s.halt(false) }},
		{Kill, func() { s.halt(true) }},
		{Retry, s.retry},
		{Begin, s.begin},
		{Restart, s.restart},
		{Step, s.runStep},
		{Exit, s.exit},
		{Defer, func() { s.kept = append(s.kept, e) }},
		{Resume, s.resume},
		{Cede, s.cede},
	} {
		if action&a.action != 0 {
			a.do()
		}
	}
	s.persist()
	return action
}

// refuse answers requests that came too late.
func (s *Supervisor) refuse() {
	for _, t := range s.waiting {
		t.answer(nil, s.unavailable())
	}
	s.waiting = nil
}

// unavailable says why nothing can be asked of this supervisor any more. It is for the owner, and for others once ended is closed.
func (s *Supervisor) unavailable() error {
	if errors.Is(s.failure, ErrReplaced) {
		return ErrReplaced
	}
	return ErrStopping
}

// halt ends every generation, in order or at once. It is performed again for one that a step has started meanwhile.
func (s *Supervisor) halt(now bool) {
	s.killing = s.killing || now
	if s.step != nil {
		s.step.cancel()
	}
	s.tell(s.opts.Manager.Stopping("stopping"))
	s.refuse()
	s.endHooks()
	s.endCarrying(s.killing)
	if h := s.hand; h != nil {
		for _, t := range h.tickets {
			t.answer(nil, ErrStopping)
		}
		h.tickets = nil
		if s.step == nil { // else it is performed again once that has ended
			s.pointBack(h)
		}
	}
	for _, b := range s.bound {
		if err := b.Socket.Cutover(0); err != nil && !errors.Is(err, os.ErrClosed) {
			s.log.Warn("cannot leave new connections to systemd", "socket", b.Spec.FDName(), "cause", err)
		}
	}
	for _, g := range s.generations {
		s.end(g, RoleDraining, "the supervisor is stopping")
		g.hurry()
		if s.killing {
			g.kill()
		}
	}
	s.live = nil
}

// exit closes the sockets: nobody is left to use them.
func (s *Supervisor) exit() {
	s.restarts.stop()
	if s.hand != nil {
		s.closeAll(s.hand.fresh)
		r := s.hand.record
		r.Outcome, r.Reason, r.Took = OutcomeFailed, "the supervisor was stopped"+r.Reason, time.Since(r.Began)
		s.observe(func(o Observer) { o.HandoffEnded(r) })
		s.hand = nil
	}
	if s.opts.KeepSockets {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		s.persist()
		for _, b := range s.bound {
			if err := b.Socket.Release(); err != nil {
				s.log.Warn("cannot close a socket", "socket", b.Spec.FDName(), "cause", err)
			}
			b.Socket.Relays(over)
		}
	} else {
		s.closeAll(s.bound)
		if s.opts.StatePath != "" {
			os.Remove(s.opts.StatePath)
		}
	}
	s.opts.StatePath = "" // what has been written is the last word
	s.log.Info("stopped")
}

// newTicker returns a ticker, or one that never ticks for a period of 0.
func newTicker(every time.Duration) *time.Ticker {
	if every > 0 {
		return time.NewTicker(every)
	}
	t := time.NewTicker(time.Hour)
	t.Stop()
	return t
}

// retry arms the next attempt to start the service, or ends the supervisor if it cannot or must not go on.
func (s *Supervisor) retry() {
	if s.first && s.opts.FailFast && s.failure == nil {
		s.failure = fmt.Errorf("%w: %s", ErrFirstStart, s.last.Reason)
	}
	if s.failure != nil {
		s.fire(StopAsked)
		return
	}
	delay := s.restarts.next()
	if delay > 0 { // else the start says it
		s.log.Info("the service is started again after a pause", "in", delay.String(), "cause", s.down)
	}
	s.tell(s.opts.Manager.Status("the service is down; starting it again in " + delay.String()))
	s.restarts.arm(delay, func() { s.post(func() { s.fire(RetryDue) }) })
}
