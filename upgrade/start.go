package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/carry"
)

func (s *Supervisor) start(ctx context.Context, h *handoff, st *step) work {
	s.number++
	var stopped *generation
	if s.live != nil && apart(h.bound) {
		stopped = s.stopFirst()
		st.waits = fmt.Sprintf("generation %d to be gone, at most %s after it was told to stop", stopped.number, stopped.plan.DrainTimeout)
	}
	number, heirOf := s.number, 0
	if s.live == nil {
		heirOf = s.orphan
	}
	h.record.To, h.heir = number, heirOf != 0
	bound, prepared, fresh := h.bound, h.prepared, set(h.fresh)
	g := &generation{
		number: number, release: prepared.Release, bound: bound, plan: h.plan, role: RoleNew,
		notified: make(chan struct{}), told: make(chan struct{}), parted: make(chan struct{}),
	}
	older, alone := s.ending(), s.exclusive(bound)
	return func() (func(), error) {
		var given lot
		defer given.close()
		if stopped != nil {
			if err := awaitGone(ctx, stopped); err != nil {
				return nil, err
			}
		}
		for _, old := range older {
			s.makeRoom(ctx, old, bound)
		}
		for i, b := range bound {
			from := heirOf
			if fresh[b.Socket] { // nobody has crashed on it
				from = 0
			}
			fd, err := b.Socket.Join(number, from)
			if err != nil {
				return nil, fmt.Errorf("socket %s: %w", b.Spec.FDName(), err)
			}
			if fd == nil { // the generation opens it itself
				g.inodes = append(g.inodes, 0)
				continue
			}
			given.add(b, fd, alone[i])
			var st unix.Stat_t
			if err := unix.Fstat(fd.Raw(), &st); err != nil {
				return nil, os.NewSyscallError("fstat", err)
			}
			g.inodes = append(g.inodes, st.Ino)
		}
		s.keeper.add(bound)
		if err := g.start(ctx, s.opts, &s.keeper, prepared, given, func(ctx context.Context) error {
			_, err := s.meet(ctx, g)
			return err
		}); err != nil {
			return nil, err
		}
		return func() { s.adopt(h, g) }, nil
	}
}

// lookInterval is the time between two looks at whether a generation has let go of its sockets.
const lookInterval = 5 * time.Millisecond

// makeRoom waits, no longer than settling twice may take, until a generation that is being ended was told to stop and has
// closed the sockets of which another one needs its seat: after that they are taken from it.
func (s *Supervisor) makeRoom(ctx context.Context, old *generation, bound []fdpass.Bound) {
	var needed []uint64
	for _, b := range bound {
		seats, err := b.Socket.Seats()
		if err != nil || len(seats) < fdpass.MaxSeats {
			continue
		}
		for i, o := range old.bound {
			if o.Socket == b.Socket && i < len(old.inodes) && slices.ContainsFunc(seats, func(s fdpass.Seat) bool { return s.Generation == old.number }) {
				needed = append(needed, old.inodes[i])
			}
		}
	}
	if len(needed) == 0 {
		return
	}
	old.hurry()
	limit := 2 * old.plan.SettleMax // it may have to settle before it is told
	if old.plan.Carry != nil {
		limit += carry.Waits * old.plan.Carry.Wait
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-old.told:
	case <-ctx.Done():
		return
	}
	look := time.NewTicker(lookInterval)
	defer look.Stop()
	for {
		held, known, err := old.process.Tree().Holds(needed)
		if err != nil || !known || !slices.Contains(held, true) {
			return
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			s.log.Warn("the sockets of a generation that was told to stop are taken from it: it still has them open, and their place is needed",
				"generation", old.number)
			return
		}
	}
}

// adopt takes over a generation whose process has just been started.
func (s *Supervisor) adopt(h *handoff, g *generation) {
	h.gen = g
	s.generations[g.number] = g
	g.uid, _ = g.process.UID() // one that has ended already has left nothing to look for
	s.watch(g)
}

func (s *Supervisor) warm(parent context.Context, h *handoff, st *step) work {
	g := h.gen
	ctx, limit, cancel := withDeadline(parent, h.plan.ReadyTimeout)
	st.limit = limit
	return func() (func(), error) {
		defer cancel()
		err := g.waiter.Wait(ctx, g.process)
		inodes := g.inodes
		var exited *child.ExitedError
		var late *child.NotReadyError
		if errors.As(err, &late) {
			late.Waited = limit.granted() // and not how late a busy machine has noticed
		}
		switch {
		case errors.As(err, &exited):
			err = errors.New(g.earlyExit())
		case err != nil:
			err = g.withUnbound(fmt.Errorf("generation %d: %w", g.number, err))
		default:
			if err = g.awaitBound(ctx, limit); err != nil {
				break
			}
			if inodes, err = s.meet(ctx, g); err == nil {
				s.tellMet(g)
				err = s.holdsItsSockets(ctx, g, inodes)
			}
		}
		return func() { g.ready, g.inodes = time.Now(), inodes }, err
	}
}

// holdsItsSockets looks whether a generation that says it is ready can be: clients of one that has closed its sockets
// would wait for ever. One that has closed some of them is told of in the log.
func (s *Supervisor) holdsItsSockets(ctx context.Context, g *generation, inodes []uint64) error {
	held, known, err := g.process.Tree().Holds(inodes)
	if err != nil || !known || len(held) == 0 {
		return err
	}
	if !slices.Contains(held, true) {
		if g.process.Exiting() { // the kernel has closed them, and not the service
			select {
			case <-g.process.Done():
				return errors.New(g.earlyExit())
			case <-ctx.Done(): // its other threads run on
			}
		}
		return fmt.Errorf("generation %d says that it is ready, but has closed the sockets that it was given (they are its descriptors from 3 on)", g.number)
	}
	for i, ok := range held {
		if !ok && inodes[i] != 0 {
			s.log.Warn("the new generation has closed a socket: nobody accepts from it", "generation", g.number, "socket", g.bound[i].Spec.FDName())
		}
	}
	return g.listening()
}

// listening returns an error if the generation has shut down a socket of its own: new connections would go to another one, as if it were
// that one's merit.
func (g *generation) listening() error {
	for _, b := range g.bound {
		if err := b.Socket.Listening(g.number); err != nil {
			return fmt.Errorf("generation %d, socket %s: %w", g.number, b.Spec.FDName(), err)
		}
	}
	return nil
}
