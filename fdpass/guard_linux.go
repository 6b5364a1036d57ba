package fdpass

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A guard repairs what a process that has inherited a shared socket does to it
// for everybody: it calls shutdown(2), or unlinks the path. It owns a goroutine,
// which close ends and waits for.
type guard struct {
	guarded
	log      *slog.Logger
	changes  *FD // owned; an inotify instance for the path's directory, or nil
	stop     *FD // owned; an eventfd
	done     sync.WaitGroup
	repaired atomic.Int64

	// For the goroutine alone.
	displaced bool   // another file is at the path, and it was said
	fresh     bool   // its path was not looked at since it is guarded
	lost      bool   // there is no way to the socket, and it is tried again
	failure   string // why that has failed last time
}

// guarded is what a guard is for. All of it is borrowed, and the socket is open
// until close has returned or renew has put another one in its place.
type guarded struct {
	socket *FD
	file   *socketFile         // or nil
	listen func() error        // makes a socket that was shut down listen again; or nil
	renew  func() (*FD, error) // puts another socket at the path, and returns it; nil where there is no path
}

const (
	// guardRest is the least time between two repairs of a socket that is shut down
	// again and again.
	guardRest = 100 * time.Millisecond
	// guardRetry is the time between two tries where a repair fails.
	guardRetry = time.Second
)

// newGuard begins to guard a socket and its file. It does without what the kernel
// refuses.
func newGuard(what guarded, log *slog.Logger) *guard {
	g := &guard{guarded: what, log: log}
	raw, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		log.Warn("a socket is not guarded", "cause", os.NewSyscallError("eventfd", err))
		return nil
	}
	g.stop = NewFD(raw)
	if g.file != nil {
		g.guardPath()
	}
	g.done.Add(1)
	go func() {
		defer g.done.Done()
		g.run()
	}()
	return g
}

// guardPath keeps a second link to the socket's file, which is all that can bring
// the first one back, and has changes of the directory told.
func (g *guard) guardPath() {
	if g.changes != nil { // of a directory that may be gone
		_ = g.changes.Close()
		g.changes = nil
	}
	err := g.file.keep()
	if errors.Is(err, unix.ENOENT) { // it is gone again already
		g.fresh = true
		return
	}
	if err != nil {
		g.log.Warn("if the path is removed, it cannot be put back", "path", g.file.path, "cause", err)
		return
	}
	raw, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == nil {
		const changes = unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_CREATE | unix.IN_MOVE_SELF | unix.IN_ONLYDIR
		if _, err = unix.InotifyAddWatch(raw, path.Dir(g.file.path), changes); err == nil {
			g.changes, g.fresh = NewFD(raw), true
			return
		}
		unix.Close(raw)
	}
	if err == unix.ENOENT {
		g.fresh = true
		return
	}
	g.log.Warn("nobody tells if the path is removed", "path", g.file.path, "cause", os.NewSyscallError("inotify", err))
}

// close ends the guard.
func (g *guard) close() {
	if g == nil {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(g.stop.Raw(), one[:])
	g.done.Wait()
	_ = g.stop.Close()
	if g.changes != nil {
		_ = g.changes.Close()
	}
}

// count returns how many repairs there were.
func (g *guard) count() int {
	if g == nil {
		return 0
	}
	return int(g.repaired.Load())
}

func (g *guard) run() {
	fds := []unix.PollFd{{Fd: int32(g.stop.Raw()), Events: unix.POLLIN}, {Events: unix.POLLRDHUP}, {Events: unix.POLLIN}}
	given := false // up: there is nothing more to see of the socket
	for {
		for g.fresh { // at what has happened before
			g.fresh = false
			g.look()
		}
		fds[1].Fd, fds[2].Fd = -1, -1
		if !given && !g.lost && (g.listen != nil || g.renew != nil) {
			fds[1].Fd = int32(g.socket.Raw())
		}
		if g.changes != nil {
			fds[2].Fd = int32(g.changes.Raw())
		}
		wait := -1
		if g.lost {
			wait = int(guardRetry.Milliseconds())
		}
		n, err := unix.Poll(fds, wait)
		if err == unix.EINTR {
			continue
		} else if err != nil || fds[0].Revents != 0 {
			return
		}
		switch {
		case n == 0 && g.returned():
		case n == 0:
			g.another("its path was removed, or it was shut down")
		case fds[1].Revents != 0 && g.renew != nil:
			g.another("a process that has it has called shutdown(2) on it, for everybody")
		case fds[1].Revents != 0:
			given = !g.relisten()
		}
		if fds[2].Revents != 0 && g.changed() && !g.lost {
			g.look()
		}
	}
}

// relisten makes a socket listen again that was shut down, and reports whether it
// does.
func (g *guard) relisten() bool {
	if err := g.listen(); err != nil {
		g.log.Error("a process that has the socket has called shutdown(2) on it, for everybody, and it cannot listen again: "+
			"clients are refused until the supervisor is restarted", "cause", err)
		return false
	}
	g.log.Error("a process that has the socket has called shutdown(2) on it, for everybody: connections that waited were reset; it listens again")
	g.repaired.Add(1)
	time.Sleep(guardRest)
	return true
}

// returned reports whether clients get to the socket again to which there was no
// way: its directory was only moved away and back, for instance.
func (g *guard) returned() bool {
	fds := []unix.PollFd{{Fd: int32(g.socket.Raw()), Events: unix.POLLRDHUP}}
	if n, err := unix.Poll(fds, 0); n != 0 || err != nil { // it was shut down
		return false
	}
	there := func() bool {
		id, _, err := identify(g.file.path)
		return err == nil && id == g.file.id
	}
	restored := false
	if !there() {
		if restored = g.file.restore() == nil; !restored || !there() {
			return false
		}
	}
	g.lost, g.failure, g.displaced = false, "", false
	g.guardPath()
	g.log.Error("the path of the socket is back, with the same socket", "path", g.file.path)
	if restored {
		g.repaired.Add(1)
	}
	return true
}

// another puts another socket in the place of one that nobody gets to any more, or
// notes that this has to be tried again.
func (g *guard) another(why string) {
	socket, err := g.renew()
	if err != nil {
		g.lost = true
		if text := err.Error(); text != g.failure { // once for each reason
			g.failure = text
			g.log.Error("clients are refused: "+why+", and no other socket can take its place yet", "path", g.file.path, "cause", err)
		}
		return
	}
	g.lost, g.failure, g.displaced, g.socket = false, "", false, socket
	g.guardPath()
	g.log.Error("another socket is in the place of this one, where clients wait for the next generation, since no other can have it: "+why, "path", g.file.path)
	g.repaired.Add(1)
	time.Sleep(guardRest)
}

// changed reads what inotify tells, and reports whether it is about the path.
func (g *guard) changed() (ours bool) {
	var buf [16 * (unix.SizeofInotifyEvent + unix.NAME_MAX + 1)]byte
	name := path.Base(g.file.path)
	for {
		n, err := unix.Read(g.changes.Raw(), buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return ours
		}
		for at := 0; at+unix.SizeofInotifyEvent <= n; {
			length := int(binary.NativeEndian.Uint32(buf[at+12:]))
			text := string(buf[at+unix.SizeofInotifyEvent : min(at+unix.SizeofInotifyEvent+length, n)])
			mask := binary.NativeEndian.Uint32(buf[at+4:])
			if strings.TrimRight(text, "\x00") == name || mask&(unix.IN_Q_OVERFLOW|unix.IN_MOVE_SELF|unix.IN_IGNORED|unix.IN_UNMOUNT) != 0 {
				ours = true
			}
			at += unix.SizeofInotifyEvent + length
		}
	}
}

// look puts the path back if it is gone, with the same socket if its second link is
// still there. What somebody else has put there is left.
func (g *guard) look() {
	id, _, err := identify(g.file.path)
	switch {
	case err == nil && id == g.file.id:
		g.displaced = false
	case err == nil:
		if !g.displaced {
			g.log.Error("another file has taken the place of the socket's: clients do not find the socket until it is removed", "path", g.file.path)
		}
		g.displaced = true
	case err == unix.ENOENT:
		if err := g.file.restore(); err != nil {
			g.another(fmt.Sprintf("its path was removed, and cannot be put back (%v)", err))
			return
		}
		g.displaced = false
		g.log.Error("the path of the socket was removed: it is put back", "path", g.file.path)
		g.repaired.Add(1)
	}
}
