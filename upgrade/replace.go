package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// Errors about a supervisor that is replaced.
var (
	// ErrReplaced is what Run returns once another supervisor has taken the service over, and what requests get that came
	// too late for the one before it: they may be made again.
	ErrReplaced = errors.New("another supervisor has taken the service over; ask again")
	// ErrBusy says that the supervisor cannot be replaced while a handoff is under way, or it still carries connections
	// over or runs a hook after one.
	ErrBusy = errors.New("a handoff is under way, or connections are still carried over or a hook still runs after it; ask again in a moment")
)

// A Successor is the process of another supervisor, which has said that it could take the service over.
type Successor interface {
	// TakeOver gives it the sockets, by the name under which a Store keeps each; they are borrowed. The state file says
	// everything else. It blocks until the other one has taken everything over, or returns why it could not. After an
	// error nothing of it may be left.
	TakeOver(sockets map[string]*fdpass.FD) error
}

// Replace leaves the service to a successor, and blocks until that one has it: then Run returns ErrReplaced. The
// service notices nothing. If the successor fails, all goes on as before, and that is the error. The error is ErrBusy,
// and nothing has happened, while the supervisor has its hands full; and ErrStopping, or the context's.
//
// What is asked of the supervisor meanwhile waits for the one that has the service then: if that is the other one,
// Unheeded tells of it.
func (s *Supervisor) Replace(ctx context.Context, by Successor) error {
	result := make(chan error, 1)
	ok := s.post(func() {
		if s.state.Phase >= Stopping {
			result <- ErrStopping
			return
		}
		if len(s.carriers.all) > 0 || s.hooksLeft > 0 || s.fire(ReplaceAsked)&Decline != 0 {
			result <- ErrBusy
			return
		}
		s.part(by, result)
	})
	if !ok {
		return s.unavailable()
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unheeded returns the signals that would have asked for what came too late for this supervisor. It is for when Run has
// returned ErrReplaced.
func (s *Supervisor) Unheeded() []unix.Signal { return s.unheeded }

// unheed notes what came too late. Who waits for an answer is told to ask again.
func (s *Supervisor) unheed() {
	for _, e := range s.kept {
		switch e {
		case StopAsked:
			s.unheeded = append(s.unheeded, unix.SIGTERM)
		case KillAsked:
			s.unheeded = append(s.unheeded, unix.SIGQUIT)
		}
	}
	if slices.ContainsFunc(s.waiting, func(t *ticket) bool { return t.steps == nil }) {
		s.unheeded = append(s.unheeded, unix.SIGHUP)
	}
	s.refuse()
}

// part lets go of every generation and every socket, and lets by take them. result gets the outcome.
func (s *Supervisor) part(by Successor, result chan<- error) {
	s.log.Info("leaving the service to another supervisor")
	s.restarts.stop()
	for _, g := range s.generations {
		g.part()
	}
	s.spawn(func() {
		s.attending.Wait()
		sockets := make(map[string]*fdpass.FD)
		s.ask(context.Background(), func() { s.letGoOfAll(sockets) })
		err := by.TakeOver(sockets)
		s.post(func() {
			if err == nil {
				s.fire(Replaced)
				closeEach(sockets)
			} else {
				s.log.Error("the other supervisor could not take the service over: this one goes on", "cause", err)
				s.opts.Stored = sockets
				s.fire(NotReplaced)
			}
			result <- err
		})
	})
}

// letGoOfAll writes everything down and closes all that this supervisor has, but for duplicates of the sockets, which it
// adds to sockets by name.
func (s *Supervisor) letGoOfAll(sockets map[string]*fdpass.FD) {
	s.persist()
	s.parted = true
	_, all := s.save()
	for _, socket := range all {
		err := socket.EachPart(func(id string, fd *fdpass.FD) error {
			own, err := fd.Dup()
			if err == nil {
				sockets[id] = own
			}
			return err
		})
		if err = errors.Join(err, socket.Release()); err != nil {
			s.log.Warn("cannot leave a socket to another supervisor", "cause", err)
		}
	}
	s.released = append(s.released, all...)
	for _, g := range s.generations {
		if g.left != nil {
			sockets[notifyID(g.number)] = g.left
		}
		if listener, err := g.process.Listener(); err == nil {
			sockets[listenerID(g.number)] = listener
		}
		if err := g.leave(); err != nil {
			s.log.Warn("cannot leave a generation to another supervisor", "generation", g.number, "cause", err)
		}
	}
}

// resume takes everything over again that another supervisor could not.
func (s *Supervisor) resume() {
	s.parted, s.persisted, s.released = false, nil, nil
	saved, err := LoadSaved(s.opts.StatePath)
	if err == nil && saved == nil {
		err = fmt.Errorf("%w: it is gone", ErrSaved)
	}
	if err != nil { // it has just been written
		s.failure, s.over, s.parted = err, true, true
		return
	}
	s.generations, s.live, s.bound, s.orphan = make(map[int]*generation), nil, nil, 0
	s.state = State{} // it may have ended meanwhile: takeOver looks
	s.beginWith(saved)
	kept := s.kept
	s.kept = nil
	for _, e := range kept {
		s.fire(e)
	}
}

// cede ends this supervisor, and leaves everything as it is.
func (s *Supervisor) cede() { s.failure, s.over = ErrReplaced, true }

// Relays blocks until the connections that this supervisor still passes on have ended, or ctx ends. It is for when Run
// has returned ErrReplaced.
func (s *Supervisor) Relays(ctx context.Context) {
	for _, socket := range s.released {
		socket.Relays(ctx)
	}
}

// closeEach closes descriptors.
func closeEach(fds map[string]*fdpass.FD) {
	for _, fd := range fds {
		fd.Close()
	}
}
