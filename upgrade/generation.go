package upgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// Role is what a generation that has a process is for.
type Role string

// The roles. A generation begins as RoleNew; where it goes from there, and when, is the handoff's business.
const (
	RoleNew      Role = "new"      // started, and not live yet
	RoleLive     Role = "live"     // serves
	RoleDraining Role = "draining" // was told to finish
	RoleFailed   Role = "failed"   // never became live, and is being ended
	RoleCrashed  Role = "crashed"  // its main process ended by itself; what is left of its tree is being ended
)

// A generation is one started copy of the service with its process tree. It owns its process, its notify socket and
// its ready signal's descriptors; all of them are released by the goroutine that ends it.
//
// The fields are the owner's, but for those that are set before its goroutines start.
type generation struct {
	number  int
	release string
	bound   []fdpass.Bound // the sockets that it was given
	inodes  []uint64       // theirs, in the same order; 0 for one that it opens itself and that was not found yet
	plan    *Plan          // that it was started from

	uid      uint32 // that it runs as
	process  *child.Process
	receiver *systemd.Receiver
	waiter   child.Waiter
	cgroup   *child.Cgroup // nil where none is delegated
	notified chan struct{} // closed when it has said READY=1

	role       Role
	said       bool   // notified is closed
	stopping   bool   // it has said STOPPING=1
	status     string // its last STATUS=, without control characters
	started    time.Time
	ready      time.Time      // when it said so; zero until then
	lived      time.Time      // when it became live; zero until then
	ending     bool           // a goroutine is ending it
	endBegan   time.Time      // when it was begun to be ended
	endLimit   *deadline      // of its drain
	kill       func()         // ends its drain, and it, at once; set once it is being ended, and may be called again
	why        string         // why it is being ended
	keepSeat   bool           // its seat waits for an heir
	retired    []fdpass.Bound // sockets that have left the configuration with it
	served     bool           // clients may have got to it
	open       []OpenSocket   // what was on its way to it when it should have been quiet
	hurry      func()         // ends the wait before its stop signal; set once it is being ended, and may be called again
	telling    bool           // its stop signal is about to be sent
	told       chan struct{}  // closed when its stop signal was sent
	adopted    bool           // another supervisor has started it
	kind       Kind           // of the handoff that made it live; "" until then
	replacedBy int            // the handoff that made the next one live; 0 if none has
	// onProbation says that it has ended by itself too soon after it became live.
	onProbation bool
	watchdog    *time.Timer   // fires when it has not said WATCHDOG=1 in time; nil if it need not
	deaf        []string      // sockets by which nobody gets to it any more, as it has shut them down
	parted      chan struct{} // closed when it is left to another supervisor
	// notFurther ends the wait for its end, without ending it; set once it is being ended.
	notFurther func()
	left       *fdpass.FD // its notify socket, for the other supervisor
}

// start starts the generation's process with the sockets that it is given. It blocks until the service was executed or could not be; then
// nothing is left of it. meet is called before it is asked through sockets that it opens itself.
func (g *generation) start(ctx context.Context, o Options, keep *keeper, prepared *Prepared, given lot, meet func(context.Context) error) (err error) {
	// Somebody may have removed it, with the control socket in it; the service must come up all the same.
	if err := os.MkdirAll(o.RuntimeDirectory, 0o755); err != nil {
		return fmt.Errorf("make the runtime directory: %w", err)
	}
	g.receiver, err = systemd.Listen(notifyPath(o.RuntimeDirectory, g.number), notifyMode)
	if err != nil {
		return fmt.Errorf("make the notify socket of generation %d: %w", g.number, err)
	}
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	keep.addReceiver(g)
	cmd := prepared.Command
	if ports := portsOf(g.bound, g.number); len(ports) > 0 && prepared.Ported != nil {
		if cmd, err = prepared.Ported(ports); err != nil {
			return err
		}
	}
	cmd.Sockets, cmd.Offers = given.inherited, given.offers
	cmd.Log = keep.log.With("generation", g.number)
	cmd.Notify = g.receiver.Path()
	g.waiter = prepared.Ready(g.notified, &Target{bound: g.bound, generation: g.number, meet: meet})
	if err = g.waiter.Prepare(&cmd); err != nil {
		return fmt.Errorf("prepare the ready signal: %w", err)
	}
	if o.Cgroups != nil {
		if g.cgroup, err = o.Cgroups.New(cgroupName(g.number, o.Cgroups)); err != nil {
			return fmt.Errorf("make the cgroup of generation %d: %w", g.number, err)
		}
		cmd.Cgroup = g.cgroup
	}
	g.started = time.Now()
	g.process, err = o.Reaper.Start(ctx, cmd)
	return err
}

// part ends everything that is done for or with the generation, as it is left to another supervisor.
func (g *generation) part() {
	if g.watchdog != nil {
		g.watchdog.Stop()
	}
	close(g.parted)
	if g.notFurther != nil {
		g.notFurther()
	}
	if g.receiver != nil {
		g.left, _ = g.receiver.FD() // without it, the other supervisor binds another one
		g.receiver.Leave()
	}
}

// wasParted reports whether part was called.
func (g *generation) wasParted() bool {
	select {
	case <-g.parted:
		return true
	default:
		return false
	}
}

// leave lets go of everything that this supervisor owns of the generation, and touches no process of it.
func (g *generation) leave() error {
	var errs []error
	if g.waiter != nil {
		errs = append(errs, g.waiter.Close())
	}
	errs = append(errs, g.process.Close())
	if g.cgroup != nil {
		errs = append(errs, g.cgroup.Close())
	}
	return errors.Join(errs...)
}

// close lets go of everything that the generation owns. No process of it may be left.
func (g *generation) close() error {
	var errs []error
	if g.waiter != nil {
		errs = append(errs, g.waiter.Close())
	}
	if g.process != nil {
		errs = append(errs, g.process.Close())
	}
	if g.cgroup != nil {
		errs = append(errs, g.cgroup.Remove())
	}
	if g.receiver != nil {
		errs = append(errs, g.receiver.Close())
	}
	return errors.Join(errs...)
}

// cgroupName is the name of its cgroup, or "".
func (g *generation) cgroupName() string {
	if g.cgroup == nil {
		return ""
	}
	return g.cgroup.Name()
}

// wasTold reports whether its stop signal was sent.
func (g *generation) wasTold() bool {
	select {
	case <-g.told:
		return true
	default:
		return false
	}
}

// watch lets the owner know what a generation says and when its main process ends.
func (s *Supervisor) watch(g *generation) {
	s.attend(func() {
		select {
		case <-g.process.Done():
			s.post(func() { s.exited(g) })
		case <-g.parted:
		}
	})
	if receiver := g.receiver; receiver != nil {
		s.attend(func() { s.listen(g, receiver) })
	}
}

// listen reads what a generation says, until its notify socket is closed. Whoever is not of its tree is not heard.
func (s *Supervisor) listen(g *generation, receiver *systemd.Receiver) {
	tree, strangers := g.process.Tree(), 0
	for {
		m, err := receiver.Receive()
		if err != nil {
			return
		}
		if m.Sender.PID != g.process.Pid() && !tree.Contains(m.Sender.PID) {
			// Who has ended already cannot be told from a stranger.
			if strangers++; strangers == 1 { // once: a stranger must not be able to fill the log
				s.log.Warn("a process that is not of the generation, or has ended already, wrote to its notify socket; it is ignored",
					"generation", g.number, "pid", m.Sender.PID, "uid", m.Sender.UID)
			}
		} else {
			s.ask(context.Background(), func() { s.notified(g, m.Notification) })
		}
		if m.BarrierFD != nil {
			m.BarrierFD.Close()
		}
	}
}

// notified takes in what a generation says about itself.
func (s *Supervisor) notified(g *generation, n systemd.Notification) {
	if n.HasStatus {
		g.status = strings.Map(printable, n.Status)
	}
	if n.ExtendTimeout > 0 {
		switch {
		case g.ending:
			g.endLimit.extend(n.ExtendTimeout)
		case s.hand != nil && s.hand.gen == g && s.step != nil && s.step.limit != nil:
			s.step.limit.extend(n.ExtendTimeout)
		}
	}
	if n.Ready && g.role == RoleNew && !g.said {
		g.said = true
		close(g.notified)
	}
	if n.Watchdog && g.watchdog != nil {
		g.watchdog.Reset(g.plan.Watchdog)
	}
	if n.Stopping && g.role == RoleLive && !g.stopping {
		g.stopping = true
		s.log.Warn("the live generation says that it is stopping", "generation", g.number)
	}
}

// printable replaces what must not reach a terminal.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

// guard begins to expect WATCHDOG=1 from a generation that has become live.
func (s *Supervisor) guard(g *generation) {
	if g.plan.Watchdog <= 0 {
		return
	}
	sig := unix.SIGABRT // leaves a core to look at, where the service does not catch it
	g.watchdog = time.AfterFunc(g.plan.Watchdog, func() {
		s.post(func() {
			if g.role != RoleLive {
				return
			}
			s.log.Error("the live generation did not say WATCHDOG=1 in time: ending it", "generation", g.number,
				"limit", g.plan.Watchdog.String(), "signal", unix.SignalName(sig))
			g.process.Signal(sig)
			sig = unix.SIGKILL // if that has not helped in the same time again
			g.watchdog.Reset(g.plan.Watchdog)
		})
	})
}

// exited notes that a generation's main process has ended.
func (s *Supervisor) exited(g *generation) {
	exit := g.process.Exit()
	switch {
	case g == s.live:
		s.log.Error("the live generation ended by itself", "generation", g.number, "release", g.release, "pid", g.process.Pid(), "how", exit.String())
		s.restarts.lived(time.Since(g.lived))
		s.judge(g)
		s.live, s.orphan, g.keepSeat = nil, g.number, true
		s.down = fmt.Sprintf("generation %d ended by itself (%s)", g.number, exit)
		s.end(g, RoleCrashed, "its main process ended ("+exit.String()+")")
		s.limitDraining()
		s.fire(LiveExited)
	case s.hand != nil && g == s.hand.gen && g.role == RoleNew:
		h := s.hand
		h.record.Reason = g.earlyExit()
		if st := s.step; st != nil {
			h.report(st.phase, time.Since(st.began), errors.New(h.record.Reason))
		}
		s.fire(NewExited)
	}
}

// earlyExit says that a generation ended before it was live, and what usually lies behind it.
func (g *generation) earlyExit() string {
	exit := g.process.Exit()
	text := fmt.Sprintf("generation %d ended (%s) after %s", g.number, exit, time.Since(g.started).Round(10*time.Millisecond))
	if !g.ready.IsZero() {
		return text
	}
	text += ", before it was ready"
	switch {
	case exit.Signal != 0:
		return text
	case exit.Code == 0:
		return text + "; its main process has to stay in the foreground (no daemonizing, and a shell has to exec it)"
	case slices.ContainsFunc(g.bound, func(b fdpass.Bound) bool { return b.Spec.Pass == fdpass.PassReusePort }):
		return text + "; its output, in the supervisor's log, says why (if that is an address in use, it does not set SO_REUSEPORT, or listens as another user than it was started as)"
	case g.unbound() != nil:
		return text + "; its output, in the supervisor's log, says why; " + g.unbound().Error()
	case len(g.bound) > 0:
		return text + "; its output, in the supervisor's log, says why (if that is an address in use, let it take descriptor 3 instead of binding)"
	}
	return text + "; its output, in the supervisor's log, says why"
}

// ending returns the generations that are being ended, the oldest first.
func (s *Supervisor) ending() []*generation {
	var list []*generation
	for _, n := range slices.Sorted(maps.Keys(s.generations)) {
		if g := s.generations[n]; g.ending {
			list = append(list, g)
		}
	}
	return list
}

// notifyMode lets a service of any user write to its notify socket: who it is, the kernel tells.
const notifyMode = 0o666

// notifyFile is what the names of notify sockets begin with.
const notifyFile = "notify."

// notifyPath is where a generation's notify socket is.
func notifyPath(dir string, generation int) string {
	return filepath.Join(dir, notifyFile+strconv.Itoa(generation))
}
