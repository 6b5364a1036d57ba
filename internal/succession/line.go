package succession

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cloudflare/tableflip"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// ErrRunning says that a successor is being started already.
var ErrRunning = errors.New("a new supervisor is being started already")

// channelName is the channel's among the descriptors that tableflip passes on.
const channelName = "succession"

// parentEnv is how tableflip tells a successor what it is.
const parentEnv = "TABLEFLIP_HAS_PARENT_7DIU3"

// markEnv names the process and the attempt that have started a successor. tableflip's own variable would not do: a service
// that uses tableflip has it too.
const markEnv = child.SuccessorVariable

// NewMark returns an environment entry for Start that no other process has.
func NewMark() string { return fmt.Sprintf("%s=%d-%s", markEnv, os.Getpid(), rand.Text()) }

// A Line is this process in the line of supervisors. A process has one.
type Line struct {
	flip   *tableflip.Upgrader
	before *Predecessor
	one    sync.Mutex // held while there is a successor
}

// Join makes this process one of a line. timeout is how long a successor may take from its start until it has taken
// everything over; after that it is killed. It must be called before the process starts any other.
func Join(timeout time.Duration) (*Line, error) {
	flip, err := tableflip.New(tableflip.Options{UpgradeTimeout: timeout})
	if err != nil {
		return nil, fmt.Errorf("get ready to be replaced: %w", err)
	}
	for _, name := range []string{parentEnv, markEnv} {
		if err := os.Unsetenv(name); err != nil { // that of the service, too
			return nil, err
		}
	}
	l := &Line{flip: flip}
	if !flip.HasParent() {
		return l, flip.Ready() // which is about this process only
	}
	file, err := flip.Fds.File(channelName)
	if err != nil || file == nil {
		return nil, errors.Join(errors.New("the supervisor before this one does not talk to it"), err)
	}
	conn, err := connOf(file)
	if err != nil {
		return nil, err
	}
	l.before = &Predecessor{flip: flip, conn: conn}
	return l, nil
}

// Predecessor returns the supervisor that this one is to follow, or nil.
func (l *Line) Predecessor() *Predecessor { return l.before }

// Stop kills a successor that is being started, and lets no other be started.
func (l *Line) Stop() { l.flip.Stop() }

// A Successor is a process that has said that it could take over.
type Successor struct {
	PID   int
	line  *Line
	conn  *net.UnixConn
	ended <-chan error // what tableflip says of it: nil once it is ready
	left  bool         // it has everything, or is gone
}

// Start starts a successor, and blocks until it could take over, or why not is known. The caller calls Close. mark is the
// environment entry, see NewMark, that the successor is started with, and so is everything that it starts before it has
// joined the line. After ErrRunning nothing was started.
func (l *Line) Start(mark string) (_ *Successor, err error) {
	if !l.one.TryLock() {
		return nil, ErrRunning
	}
	defer func() {
		if err != nil {
			l.one.Unlock()
		}
	}()
	conn, theirs, err := newChannel()
	if err != nil {
		return nil, err
	}
	err = l.flip.Fds.AddFile(channelName, theirs)
	theirs.Close()
	if err != nil {
		conn.Close()
		return nil, err
	}
	// tableflip passes the process's environment on. Once Start returns, the successor was started, or could not be.
	name, value, _ := strings.Cut(mark, "=")
	if err = os.Setenv(name, value); err != nil {
		conn.Close()
		return nil, err
	}
	defer os.Unsetenv(name)
	ended := make(chan error, 1)
	go func() { ended <- l.flip.Upgrade() }() // which ends with the process that it starts, after the timeout at the latest
	s := &Successor{line: l, conn: conn, ended: ended}
	heard := make(chan message, 1)
	go func() { // ends with the connection
		m, _, err := receive(conn)
		if err == nil {
			heard <- m
		}
	}()
	select {
	case m := <-heard:
		if m.Prepared > 0 {
			s.PID = m.Prepared
			return s, nil
		}
		s.left = true
		err = s.reason(m, <-ended)
	case err = <-ended:
		s.left = true
		select {
		case m := <-heard:
			err = s.reason(m, err)
		case <-time.After(lastWords): // it has said nothing
			err = s.reason(message{}, err)
		}
	}
	conn.Close()
	return nil, err
}

// lastWords is how long a packet may take that was sent before its sender ended.
const lastWords = 100 * time.Millisecond

// reason says why a successor has ended.
func (s *Successor) reason(last message, ended error) error {
	if last.Error != "" {
		return errors.New(last.Error)
	}
	if ended == nil {
		return errors.New("the new supervisor says that it is ready, but has not taken anything over")
	}
	text := strings.TrimPrefix(ended.Error(), "tableflip: ")
	return fmt.Errorf("the new supervisor: %s", strings.TrimPrefix(text, "new "))
}

// TakeOver gives the successor everything, and blocks until it is ready, or returns why it could not be: then it is gone.
func (s *Successor) TakeOver(e Estate) error {
	s.left = true
	sent := e.send(s.conn) // it may be gone already, which ended tells
	if err := <-s.ended; err != nil {
		_ = s.conn.SetReadDeadline(time.Now().Add(lastWords))
		m, _, _ := receive(s.conn)
		return s.reason(m, err)
	}
	return sent
}

// Main tells the successor that the service manager takes it for the main process from now on.
func (s *Successor) Main() error { return send(s.conn, message{Main: true}) }

// Close ends a successor that has not been given anything, with why, and waits until it is gone. It is called once.
func (s *Successor) Close(why error) {
	if !s.left {
		s.left = true
		if err := send(s.conn, message{Withdraw: why.Error()}); err == nil {
			<-s.ended
		}
	}
	s.conn.Close()
	s.line.one.Unlock()
}

// A Predecessor is the supervisor that this one is to follow.
type Predecessor struct {
	flip *tableflip.Upgrader
	conn *net.UnixConn
}

// Await says that this process could take over, and blocks until the predecessor has let go of everything. The caller
// owns the Estate.
func (p *Predecessor) Await() (*Estate, error) {
	if err := send(p.conn, message{Prepared: os.Getpid()}); err != nil {
		return nil, fmt.Errorf("the supervisor before this one has ended: %w", err)
	}
	return receiveEstate(p.conn)
}

// Fail tells the predecessor why this process cannot take over. This process has to end then.
func (p *Predecessor) Fail(why error) { _ = send(p.conn, message{Error: why.Error()}) }

// Ready says that everything is taken over, and blocks until the predecessor has told the service manager who is the main
// process now. If the predecessor has ended before that, the error says so.
func (p *Predecessor) Ready() error {
	defer p.conn.Close()
	if err := p.flip.Ready(); err != nil {
		return fmt.Errorf("the supervisor before this one has ended: %w", err)
	}
	m, _, err := receive(p.conn)
	if err == nil && !m.Main {
		err = errors.New("it has said something else than was expected")
	}
	if err != nil {
		return fmt.Errorf("the supervisor before this one has ended: %w", err)
	}
	return nil
}
