package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// portsOf returns the private ports that a generation has, by the names of their sockets.
func portsOf(bound []fdpass.Bound, generation int) map[string]int {
	ports := make(map[string]int)
	for _, b := range bound {
		own, ok := b.Socket.(fdpass.SelfBound)
		if !ok {
			continue
		}
		if port := own.Port(generation); port != 0 {
			ports[b.Spec.FDName()] = port
		}
	}
	return ports
}

// meet looks for the sockets that a generation, which says that it is ready, has opened itself, and gives duplicates of them to
// those whose they are. It returns the generation's inodes with theirs. The error tells of one that it has not opened, and of
// somebody else who answers in its place.
func (s *Supervisor) meet(ctx context.Context, g *generation) (inodes []uint64, err error) {
	inodes = slices.Clone(g.inodes)
	for i, b := range g.bound {
		own, ok := b.Socket.(fdpass.SelfBound)
		if !ok {
			continue
		}
		listening, err := own.Listeners(g.number)
		if err != nil {
			s.log.Warn("the kernel does not tell who listens: what the new generation has opened is not known", "socket", b.Spec.FDName(), "cause", err)
			continue
		}
		if inodes[i], err = s.meetOne(ctx, g, b, own, listening); err != nil {
			return inodes, err
		}
	}
	return inodes, nil
}

// tellMet logs which sockets the generation has opened itself.
func (s *Supervisor) tellMet(g *generation) {
	for _, b := range g.bound {
		own, ok := b.Socket.(fdpass.SelfBound)
		if !ok {
			continue
		}
		if inodes, err := own.Listeners(g.number); err == nil {
			at := b.Socket.Addr()
			if port := own.Port(g.number); port != 0 {
				at = fmt.Sprintf("port %d", port)
			}
			s.log.Info("the new generation listens by itself", "generation", g.number, "socket", b.Spec.FDName(), "at", at, "sockets", len(inodes))
		}
	}
}

// meetOne is meet for one socket, at whose place these listen. It returns the first of them that is the generation's.
func (s *Supervisor) meetOne(ctx context.Context, g *generation, b fdpass.Bound, own fdpass.SelfBound, listening []uint64) (inode uint64, err error) {
	name := b.Spec.FDName()
	if len(listening) == 0 {
		if g.process.Exiting() {
			select {
			case <-g.process.Done():
				return 0, errors.New(g.earlyExit())
			case <-ctx.Done(): // its other threads run on
			}
		}
		return 0, fmt.Errorf("generation %d says that it is ready, but nobody listens on %s, for the socket %s", g.number, place(b, own, g.number), name)
	}
	tree := g.process.Tree()
	held, known, err := tree.Holds(listening)
	if err != nil {
		return 0, err
	}
	for j, ok := range held {
		if known && !ok {
			return 0, fmt.Errorf("another process than generation %d listens on %s, for the socket %s, and would answer in its place; \"ss -lntp\" names it",
				g.number, place(b, own, g.number), name)
		}
		if !known {
			s.log.Warn("whose the socket is that listens in the new generation's place cannot be seen", "generation", g.number, "socket", name, "inode", listening[j])
		}
	}
	var found []*fdpass.FD
	for _, inode := range listening {
		fd, err := tree.Socket(inode)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			s.log.Warn("the new generation's socket cannot be duplicated, see pidfd_getfd(2): if it crashes, clients are refused until the next one is there, and what waits in its queue is lost",
				"generation", g.number, "socket", name, "cause", err)
		}
		if err == nil {
			found = append(found, fd)
		}
	}
	return listening[0], own.Met(g.number, found)
}

// place says where a generation is to listen.
func place(b fdpass.Bound, own fdpass.SelfBound, generation int) string {
	if port := own.Port(generation); port != 0 {
		return fmt.Sprintf("its port %d (in its environment as PORT, and {port:%s} in its arguments)", port, b.Spec.FDName())
	}
	return b.Socket.Addr()
}
