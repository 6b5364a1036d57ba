package upgrade

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// takeOver goes on where the supervisor before this one has ended, whatever it was doing then:
//
//   - A live generation that runs is the live one again. If it has ended, the service is started again.
//   - A handoff that had not moved all new connections is rolled back: they go to the live generation, and the new one is
//     ended. One that had is finished, without the rest of its soak, and so is one whose new generation was ready if
//     there is no live one to go back to.
//   - A generation that was being ended is ended; one that was told to stop is not told again, see resume.
func (s *Supervisor) takeOver(v *Saved) {
	s.number, s.handoffs, s.last, s.orphan = max(v.Number, s.number), max(v.Handoffs, s.handoffs), v.Last, v.Orphan
	s.lastRelease, s.goBack = v.LastRelease, v.GoBack
	if manners[v.Uncarried] != "" {
		s.uncarried = v.Uncarried
	}
	if h := v.Handoff; h != nil {
		h.Record.Began = s.clock.time(h.Began)
	}
	r := &recovery{s: s, saved: v, generations: make(map[int]*generation)}
	r.restoreGenerations()
	r.restoreSockets()
	s.bound = r.bound(v.Bound)
	if s.opts.Adopted != nil {
		if err := s.opts.Adopted(); err != nil {
			s.failure, s.over, s.parted = err, true, true
			return
		}
		s.opts.Adopted = nil
	}
	if len(v.Generations) == 0 && v.Handoff == nil { // it had stopped: only the sockets are left
		s.log.Info("found the sockets of the supervisor before", "sockets", len(s.bound))
		return
	}
	s.first = false
	live := r.generations[v.Live]
	if live != nil {
		s.lastRelease = live.release
	}
	if plan := r.plan(v.Plan); plan != nil {
		s.plan = plan
	}
	r.retire()
	for _, g := range s.sorted() {
		r.resume(g)
	}
	if live != nil && r.alive(live) {
		s.live, s.state = live, State{Live: true}
	} else if live != nil {
		s.orphan, live.keepSeat = live.number, true
		s.judge(live)
		s.down = fmt.Sprintf("generation %d had ended when the supervisor came back", live.number)
		s.end(live, RoleCrashed, "its main process had ended when the supervisor came back")
	}
	r.decide()
}

// A recovery is one taking over.
type recovery struct {
	s           *Supervisor
	saved       *Saved
	sockets     []fdpass.Socket // by the index in saved; nil for one that is lost
	generations map[int]*generation
}

// restoreGenerations finds the generations' processes.
func (r *recovery) restoreGenerations() {
	for _, sg := range r.saved.Generations {
		g := &generation{
			number: sg.Number, release: sg.Release, inodes: sg.Inodes, role: sg.Role, kind: sg.Kind, uid: sg.UID, status: sg.Status,
			started: r.s.clock.time(sg.Started), ready: r.s.clock.time(sg.Ready), lived: r.s.clock.time(sg.Lived), why: sg.Why,
			served: sg.Served, open: sg.Open, telling: sg.Telling, deaf: sg.Deaf,
			replacedBy: sg.ReplacedBy, onProbation: sg.OnProbation,
			adopted:  true,
			notified: make(chan struct{}), told: make(chan struct{}), parted: make(chan struct{}),
		}
		if g.plan = r.plan(sg.Plan); g.plan == nil {
			g.plan = r.s.opts.Plan
		}
		if sg.Told {
			close(g.told)
		}
		r.hold(g, child.Adoption{Pid: sg.PID, StartTime: sg.StartTime, UID: sg.UID}, sg.Cgroup)
	}
	// One that was being started may have a process of which nothing was written down.
	h := r.saved.Handoff
	if h == nil || h.New != 0 || phaseNamed(r.saved.Phase) != Starting || r.s.generations[r.saved.Number] != nil {
		return
	}
	g := &generation{number: r.saved.Number, role: RoleFailed, uid: h.UID, plan: r.s.opts.Plan, started: time.Now(),
		notified: make(chan struct{}), told: make(chan struct{}), parted: make(chan struct{})}
	close(g.told)
	const nobody = 1 << 30 // no process has that number
	r.hold(g, child.Adoption{Pid: nobody, StartTime: 1, UID: h.UID}, cgroupName(g.number, r.s.opts.Cgroups))
}

// hold takes a generation's process over, or what is left of its tree.
func (r *recovery) hold(g *generation, a child.Adoption, cgroup string) {
	s := r.s
	var err error
	if cgroup != "" && s.opts.Cgroups != nil {
		if g.cgroup, err = s.opts.Cgroups.Open(cgroup); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.log.Warn("cannot open the cgroup of a generation", "generation", g.number, "cause", err)
		}
		a.Cgroup = g.cgroup
	}
	a.Notify = notifyPath(s.opts.RuntimeDirectory, g.number)
	if g.receiver, err = r.receiver(g.number, a.Notify); err != nil {
		s.log.Warn("cannot hear what a generation says", "generation", g.number, "cause", err)
	}
	if g.process, err = child.Adopt(a); err != nil {
		if !errors.Is(err, os.ErrProcessDone) {
			s.log.Error("cannot take a generation over", "generation", g.number, "pid", a.Pid, "cause", err)
		}
		g.process = child.Remains(a)
	}
	s.generations[g.number], r.generations[g.number] = g, g
}

// receiver makes a generation's notify socket: the one that was kept, with what was said meanwhile, or another one.
func (r *recovery) receiver(generation int, path string) (*systemd.Receiver, error) {
	if fd := r.s.opts.Stored[notifyID(generation)]; fd != nil {
		if receiver, err := systemd.Resume(fd, path); err == nil {
			return receiver, nil
		}
	}
	return systemd.Listen(path, notifyMode)
}

// restoreSockets finds the sockets: in the store, with systemd, or with a process that has them.
func (r *recovery) restoreSockets() {
	s := r.s
	var borrowed []*fdpass.FD
	defer func() {
		for _, fd := range borrowed {
			fd.Close()
		}
	}()
	find := func(p fdpass.Part) *fdpass.FD {
		if fd := s.opts.Stored[p.ID]; fd != nil {
			return fd
		}
		for _, fds := range s.opts.Systemd {
			for _, fd := range fds {
				if id, err := fdpass.PartID(fd); err == nil && id == p.ID {
					return fd
				}
			}
		}
		for _, g := range s.sorted() {
			if fd, err := g.process.Tree().Socket(p.Inode); err == nil {
				borrowed = append(borrowed, fd)
				return fd
			}
		}
		return nil
	}
	used := make(map[string]bool)
	for _, snapshot := range r.saved.Sockets {
		for _, p := range snapshot.Parts {
			used[p.ID] = true
		}
	}
	for id, fd := range s.opts.Stored {
		if !used[id] && !strings.HasPrefix(id, notifyPrefix) && !strings.HasPrefix(id, listenerPrefix) { // that of a generation of which nothing was written down: its place in the group is not its own
			if err := fdpass.Discard(fd); err != nil {
				s.log.Warn("cannot close a socket that nobody knows of", "cause", err)
			}
		}
	}
	for _, snapshot := range r.saved.Sockets {
		socket, err := fdpass.Restore(snapshot, find, s.log)
		if err != nil {
			s.log.Error("a socket could not be kept: connections that waited in it are lost, and it is bound again", "cause", err)
		}
		r.sockets = append(r.sockets, socket)
	}
	for _, sg := range r.saved.Generations {
		g := r.generations[sg.Number]
		g.bound, g.inodes = nil, nil
		for i, b := range sg.Bound {
			if r.sockets[b.Socket] != nil {
				g.bound = append(g.bound, fdpass.Bound{Spec: b.Spec, Socket: r.sockets[b.Socket]})
				g.inodes = append(g.inodes, sg.Inodes[i])
			}
		}
		r.lend(g)
	}
}

// bound is the inverse of socketTable.add, without what is lost.
func (r *recovery) bound(list []savedBound) (bound []fdpass.Bound) {
	for _, b := range list {
		if r.sockets[b.Socket] != nil {
			bound = append(bound, fdpass.Bound{Spec: b.Spec, Socket: r.sockets[b.Socket]})
		}
	}
	return bound
}

// retire finds the sockets that have left the configuration: each goes with the newest of the generations that are being ended
// and have it, as it would have with the old one of the handoff that has removed it.
func (r *recovery) retire() {
	s := r.s
	wanted := slices.Clone(s.bound)
	if h := r.saved.Handoff; h != nil {
		wanted = append(wanted, r.bound(h.Bound)...)
	}
	list := s.sorted()
	slices.Reverse(list)
	for _, g := range list {
		if g.role != RoleNew && g.role != RoleLive {
			g.retired = without(g.bound, wanted)
		}
		wanted = append(wanted, g.bound...)
	}
}

// settleSockets sees to the sockets that only the handoff had that is rolled back: nobody would accept from them. At a first
// start they stay, so that clients wait and are not refused, and the next attempt takes them.
func (r *recovery) settleSockets() {
	s, v := r.s, r.saved
	if v.Handoff == nil {
		return
	}
	bound := r.bound(v.Handoff.Bound)
	if s.live == nil && len(v.Bound) == 0 {
		s.bound = bound
		return
	}
	s.closeAll(without(bound, s.bound))
}

// plan makes a plan of its source; nil if there is none or it cannot be used.
func (r *recovery) plan(source []byte) *Plan {
	if len(source) == 0 {
		return nil
	}
	p, err := r.s.opts.Restore(source)
	if err != nil {
		r.s.log.Warn("what a generation was started from cannot be read; what is configured now is taken instead", "cause", err)
		return nil
	}
	return p
}

// alive reports whether a generation's main process runs.
func (r *recovery) alive(g *generation) bool {
	select {
	case <-g.process.Done():
		return false
	default:
		return true
	}
}

// resume goes on with a generation that was being ended, and listens to all.
func (r *recovery) resume(g *generation) {
	s := r.s
	s.watch(g)
	role := g.role
	switch {
	case role == RoleNew || role == RoleLive:
		return // decided later
	case g.why == "":
		g.why = "the supervisor had ended while it was being started"
	}
	// The supervisor has ended just before or just after it has sent the stop signal. A second one may mean something else to a
	// service, but one that does not accept any more has had it.
	if g.telling && !g.wasTold() && r.letGo(g) {
		close(g.told)
	}
	s.end(g, role, g.why)
}

// letGo reports whether a generation has closed its sockets.
func (r *recovery) letGo(g *generation) bool {
	held, known, err := g.process.Tree().Holds(g.inodes)
	return err == nil && known && !slices.Contains(held, true)
}

// decide brings a handoff that was under way to an end, and the service up if it is down.
func (r *recovery) decide() {
	s, v := r.s, r.saved
	var fresh *generation
	if v.Handoff != nil {
		fresh = r.generations[v.Handoff.New]
	}
	phase := phaseNamed(v.Phase)
	moved := phase == Settling || phase == Soaking
	ready := phase > Warming && phase <= Soaking
	switch {
	case fresh == nil || fresh.role != RoleNew:
	case r.alive(fresh) && (moved || ready && s.live == nil):
		r.finish(fresh)
		return
	default:
		r.rollBack(fresh)
	}
	r.settleSockets()
	if v.Handoff != nil {
		h := &handoff{record: v.Handoff.Record, pointed: r.pointed()}
		s.pointBack(h)
		r.failed(h.record)
	}
	if s.live != nil {
		s.log.Info("took over", "generation", s.live.number, "release", s.live.release, "pid", s.live.process.Pid())
		s.guard(s.live)
		s.tell(s.opts.Manager.Ready(fmt.Sprintf("generation %d serves on under a new supervisor", s.live.number)))
		return
	}
	s.log.Warn("the service is down: starting it again")
	s.fire(RetryDue)
}

// finish finishes a handoff that had moved all new connections.
func (r *recovery) finish(fresh *generation) {
	s, sh := r.s, r.saved.Handoff
	h := &handoff{joined: make(chan struct{}), record: sh.Record, gen: fresh, bound: r.bound(sh.Bound)}
	if h.plan = r.plan(sh.Plan); h.plan == nil {
		h.plan = fresh.plan
	}
	h.plan.Soak, h.pointed = 0, r.pointed()
	h.fresh = without(h.bound, s.bound)
	for _, b := range h.bound {
		if err := b.Socket.Cutover(fresh.number); err != nil {
			s.log.Error("cannot turn a socket to the new generation", "socket", b.Spec.FDName(), "cause", err)
		}
	}
	s.log.Info("finishing the handoff of the supervisor before", "handoff", h.record.Handoff, "generation", fresh.number)
	s.hand = h
	s.state = State{Phase: Settling, Live: s.live != nil}
	s.runStep()
}

// pointed is how the current release was changed for the handoff that was under way; nil if it was not.
func (r *recovery) pointed() *pointing {
	h := r.saved.Handoff
	if h.Pointed == nil {
		return nil
	}
	plan := r.plan(h.Plan)
	if plan == nil || plan.Releases == nil {
		r.s.log.Error("the current release cannot be changed back: the configuration of the handoff that was under way cannot be read",
			"release", h.Pointed.From, "now", h.Pointed.To)
		return nil
	}
	return &pointing{plan.Releases, h.Pointed.From, h.Pointed.To}
}

// rollBack ends a new generation that had not got all new connections, or has ended.
func (r *recovery) rollBack(fresh *generation) {
	s := r.s
	if s.live != nil {
		for _, b := range s.bound {
			if err := b.Socket.Cutover(s.live.number); err != nil {
				s.log.Error("cannot turn a socket back to the old generation", "socket", b.Spec.FDName(), "cause", err)
			}
		}
	}
	s.end(fresh, RoleFailed, "the supervisor had ended before it was live")
}

// failed writes down that a handoff has failed with the supervisor.
func (r *recovery) failed(record Record) {
	record.Outcome, record.Reason = OutcomeFailed, "the supervisor ended; the one after it has rolled the handoff back"+record.Reason
	record.Took = time.Since(record.Began)
	r.s.last = &record
	r.s.log.Error("handoff failed", "handoff", record.Handoff, "step", record.Phase, "cause", record.Reason)
	r.s.observe(func(o Observer) { o.HandoffEnded(record) })
}

// sorted returns all generations, the oldest first.
func (s *Supervisor) sorted() []*generation {
	list := make([]*generation, 0, len(s.generations))
	for _, g := range s.generations {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *generation) int { return a.number - b.number })
	return list
}

// cgroupName is the name of a generation's cgroup; "" where none is delegated.
func cgroupName(generation int, d *child.Delegation) string {
	if d == nil {
		return ""
	}
	return fmt.Sprintf("gen-%d", generation)
}
