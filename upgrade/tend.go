package upgrade

import (
	"errors"
	"io/fs"
	"os"
	"time"

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
}

// gone reports whether there is nothing at a path.
func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// tendState writes the state file again that was removed.
func (s *Supervisor) tendState() {
	if s.opts.StatePath == "" || s.persisted == nil || !gone(s.opts.StatePath) {
		return
	}
	s.log.Error("the state file was removed: it is written again", "path", s.opts.StatePath)
	s.persisted = nil
	s.persist()
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
