package upgrade

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// tendEvery is the time between two looks at whether what the supervisor has made is still there.
const tendEvery = time.Second

// tend puts right what somebody has done to the supervisor's files meanwhile. It blocks no longer than that takes.
func (s *Supervisor) tend() {
	if s.parted || s.state.Phase >= Replacing {
		return
	}
	s.tendState()
	for _, g := range s.generations {
		s.tendReceiver(g)
	}
	s.tendWays()
	s.tendLive()
}

// gone reports whether there is nothing at a path.
func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// tendState writes the state file again that was removed, or could not be written.
func (s *Supervisor) tendState() {
	if s.opts.StatePath != "" && s.unpersisted == "" && s.persisted != nil && gone(s.opts.StatePath) {
		s.log.Error("the state file was removed: it is written again", "path", s.opts.StatePath)
		s.persisted = nil
	}
	if s.unpersisted != "" || s.persisted == nil {
		s.persist()
	}
}

// tendReceiver makes the notify socket of a generation again that was removed: nothing that the generation says would get
// here, and if it has to say WATCHDOG=1 it would be killed for it. One that is being ended has said what matters.
func (s *Supervisor) tendReceiver(g *generation) {
	if g.receiver == nil || g.ending || !gone(g.receiver.Path()) {
		return
	}
	receiver, err := systemd.Listen(g.receiver.Path(), notifyMode)
	if err != nil {
		return // the directory is gone as well; it is made again with the control socket in it
	}
	s.log.Error("the notify socket of a generation was removed: it is made again", "generation", g.number, "path", receiver.Path())
	g.receiver.Leave() // which ends whoever listens to it
	g.receiver = receiver
	s.keeper.forget(notifyID(g.number))
	s.attend(func() { s.listen(g, receiver) })
	s.persist()
}

// tendWays puts right what leads new connections to services that open their sockets themselves, while two generations serve,
// which can be for long. tendLive does it as long as one does.
func (s *Supervisor) tendWays() {
	if s.live == nil || !s.state.Phase.waits() {
		return
	}
	for _, b := range s.live.bound {
		if _, ok := b.Socket.(fdpass.SelfBound); !ok {
			continue
		}
		if _, err := b.Socket.Revive(0); err != nil { // which is no generation's: none is taken from its clients
			s.log.Error("new connections may not get where they should", "socket", b.Spec.FDName(), "cause", err)
		}
	}
}

// tendLive replaces the live generation if a process has shut a socket of it down, so that nobody gets to it any more: its
// clients wait, for as long as they do, where the next one finds them. It is started from what the live one was started from,
// at once the first time and then with growing pauses.
func (s *Supervisor) tendLive() {
	g := s.live
	if g == nil || s.state.Phase != Idle {
		return
	}
	known := len(g.deaf)
	for i, b := range g.bound {
		if name := b.Spec.FDName(); s.isDeaf(g, i) && !slices.Contains(g.deaf, name) {
			g.deaf = append(slices.Clone(g.deaf), name) // others read the one that they have
		}
	}
	if len(g.deaf) > known {
		s.log.Error("nobody gets to the live generation any more, since a process has shut a socket of it down: it is replaced by another one like it",
			"generation", g.number, "sockets", strings.Join(g.deaf, " "))
		s.repairs.lived(time.Since(g.lived))
		s.persist()
	}
	if now := time.Now(); len(g.deaf) > 0 && !now.Before(s.repairAt) {
		s.repairAt = now.Add(s.repairs.next())
		s.fire(LiveDeaf)
	}
}

// isDeaf reports whether nobody gets to a generation by one of its sockets any more. A steered one listens again then, so
// that connections wait; in the place of a shared one, another one is there.
func (s *Supervisor) isDeaf(g *generation, i int) bool {
	socket, name := g.bound[i].Socket, g.bound[i].Spec.FDName()
	was, err := socket.Revive(g.number)
	if err != nil && !slices.Contains(g.deaf, name) {
		s.log.Error("nobody gets to the live generation, and its socket cannot be made to listen again", "generation", g.number,
			"socket", name, "cause", err)
	}
	if was || socket.Mode() != fdpass.Shared {
		return was
	}
	now, err := socket.Snapshot()
	return err == nil && i < len(g.inodes) && len(now.Parts) == 1 && now.Parts[0].Inode != g.inodes[i]
}
