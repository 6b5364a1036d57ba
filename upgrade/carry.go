package upgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/carry"
)

// Carried tells what became of the kept-alive connections of a generation that was replaced.
type Carried = carry.Counts

// letGoMax is how long a generation may take to close what it has no use for, once it was told to stop. One that it has
// still open then goes on being its own.
const letGoMax = 2 * time.Second

// A carrying is one batch of connections that are carried over.
type carrying struct {
	generation int // that had them
	handoff    int // that replaced it
	batch      *carry.Batch
}

// carriers is what is carried over now. It is the owner's, but for its context.
type carriers struct {
	all map[*carrying]bool
	sum Carried // of all that are over

	open context.Context // until everything is to be cut off
	cut  context.CancelFunc
}

func newCarriers() carriers {
	c := carriers{all: make(map[*carrying]bool)}
	c.open, c.cut = context.WithCancel(context.Background())
	return c
}

// carriesFrom reports whether the connections of a generation that is about to be ended are to be carried over.
func (s *Supervisor) carriesFrom(g *generation, role Role) bool {
	return g.plan.Carry != nil && s.uncarried == "" && role == RoleDraining && s.state.Phase < Stopping && len(g.carried()) > 0
}

// manners are what a service does with its connections of which none can be carried over therefore.
var manners = map[carry.Reason]string{
	carry.Shut: "the service ends its idle connections with shutdown(2) when it is told to stop, which reaches the clients",
	carry.Kept: "the service keeps its idle connections open when it is told to stop",
}

// learn draws conclusions from a batch that is over: where requests have waited for nothing, none are made to wait again.
func (s *Supervisor) learn(c *carrying) {
	why := c.batch.Futile()
	if why == "" || s.uncarried != "" {
		return
	}
	s.uncarried = why
	s.log.Warn("kept-alive connections are not carried over from now on: "+manners[why]+`; set handoff.keepalive to "close"`, "generation", c.generation)
}

// unlearn forgets that when a generation ends whose connections were not to be carried over: what comes after it may be another program.
func (s *Supervisor) unlearn(g *generation) {
	if g.plan.Carry == nil {
		s.uncarried = ""
	}
}

// carried returns those of its sockets whose connections can be carried over: the next generation has one of its own on
// the same address.
func (g *generation) carried() (bound []fdpass.Bound) {
	for _, b := range g.bound {
		if b.Spec.Protocol == fdpass.HTTP1 && b.Socket.Mode() == fdpass.Steered {
			bound = append(bound, b)
		}
	}
	return bound
}

// established returns the inode numbers of the connections to these sockets.
func established(bound []fdpass.Bound) ([]uint64, error) {
	census, err := fdpass.TakeCensus(bound)
	if err != nil {
		return nil, err
	}
	var inodes []uint64
	for _, b := range bound {
		inodes = append(inodes, census.Established(b.Socket)...)
	}
	return inodes, nil
}

// park prepares to carry the connections of a generation over, which has to be told to stop right after it. It returns
// nil where there is nothing to carry.
func (s *Supervisor) park(ctx context.Context, g *generation) *carrying {
	inodes, err := established(g.carried())
	if err == nil && len(inodes) == 0 {
		return nil
	}
	var batch *carry.Batch
	if err == nil {
		p := g.plan
		batch, err = carry.Park(ctx, g.process, inodes, carry.Options{
			Wait: p.Carry.Wait, Idle: p.Carry.Idle, Relays: p.Carry.Relays, LetGo: max(1, min(letGoMax, p.DrainTimeout)),
			Signal: p.DrainSignal, Log: s.log,
		})
	}
	if err != nil {
		text := "not all kept-alive connections can be carried over; the others end as the service ends them"
		if errors.Is(err, os.ErrPermission) {
			text += ": it takes the right to trace the service's processes, which is the same user or CAP_SYS_PTRACE, and kernel.yama.ptrace_scope below 2"
		}
		s.log.Warn(text, "generation", g.number, "cause", err)
	}
	if batch == nil {
		return nil
	}
	c := &carrying{generation: g.number, handoff: g.replacedBy, batch: batch}
	if !s.ask(context.Background(), func() {
		s.carriers.all[c] = true
		if s.state.Phase >= Stopping {
			batch.Hurry()
		}
	}) {
		batch.Hurry()
	}
	return c
}

// carry begins to carry over what was parked, once its generation was told to stop.
func (s *Supervisor) carry(c *carrying) {
	if c == nil {
		return
	}
	s.spawn(func() {
		began := time.Now()
		c.batch.Run(s.carriers.open)
		s.post(func() { s.carriedOver(c, time.Since(began)) })
	})
}

// carriedOver writes down what became of a batch.
func (s *Supervisor) carriedOver(c *carrying, took time.Duration) {
	delete(s.carriers.all, c)
	s.learn(c)
	counts := c.batch.Counts()
	s.carriers.sum = s.carriers.sum.Plus(counts)
	if s.last != nil && s.last.Handoff == c.handoff {
		r := *s.last // others read the one that they have
		r.Carried = &counts
		s.last = &r
	}
	s.persist()
	s.log.Info("carried kept-alive connections over", "generation", c.generation, "found", counts.Found(), "carried", counts.Carried,
		"requests", counts.Relayed, "lost", counts.Lost, "left", reasons(counts.Left),
		"parked", c.batch.Waited().Round(time.Millisecond).String(), "took", took.Round(time.Millisecond).String())
}

// reasons writes why connections were left alone.
func reasons(left map[carry.Reason]int) string {
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(left)) {
		parts = append(parts, fmt.Sprintf("%s:%d", why, left[why]))
	}
	return strings.Join(parts, " ")
}

// endCarrying has what is carried over end: in order, or at once.
func (s *Supervisor) endCarrying(now bool) {
	for c := range s.carriers.all {
		c.batch.Hurry()
	}
	if now {
		s.carriers.cut()
	}
}

// carryCounts adds what is carried over now to a status.
func (s *Supervisor) carryCounts(st *Status) {
	st.Uncarried = manners[s.uncarried]
	sum := s.carriers.sum
	for c := range s.carriers.all {
		counts := c.batch.Counts()
		sum = sum.Plus(counts)
		if st.Last != nil && st.Last.Handoff == c.handoff {
			r := *st.Last
			r.Carried = &counts
			st.Last = &r
		}
	}
	if sum.Found() > 0 {
		st.Carried = &sum
	}
}

// unpark undoes what the supervisor before this one has left of carrying over the connections of a generation.
func (s *Supervisor) unpark(g *generation) {
	bound := g.carried()
	if !g.adopted || g.plan.Carry == nil || len(bound) == 0 {
		return
	}
	inodes, err := established(bound)
	if err == nil {
		err = carry.Release(g.process, inodes)
	}
	if err != nil {
		s.log.Warn("cannot see whether connections wait that the supervisor before this one was about to carry over", "generation", g.number, "cause", err)
	}
}

// giveBack leaves parked connections to the generation that has them, which goes on as it was. c may be nil.
func (s *Supervisor) giveBack(c *carrying) {
	if c == nil {
		return
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	c.batch.Run(over)
	s.ask(context.Background(), func() { delete(s.carriers.all, c) })
}
