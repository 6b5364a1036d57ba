package fdpass

import (
	"encoding/binary"
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
	log      *slog.Logger
	socket   *FD          // borrowed; open until close has returned
	listen   func() error // makes it listen again; nil if it does not listen at all
	file     *socketFile  // borrowed, or nil
	changes  *FD          // owned; an inotify instance for the path's directory, or nil
	stop     *FD          // owned; an eventfd
	done     sync.WaitGroup
	repaired atomic.Int64

	displaced bool // another file is at the path, and it was said
}

// guardRest is the least time between two repairs of a socket that is shut down
// again and again.
const guardRest = 100 * time.Millisecond

// newGuard begins to guard a socket, which is borrowed, and its file, if there is
// one. It does without what the kernel refuses.
func newGuard(socket *FD, file *socketFile, log *slog.Logger, listen func() error) *guard {
	g := &guard{log: log, socket: socket, file: file, listen: listen}
	raw, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		log.Warn("a socket is not guarded", "cause", os.NewSyscallError("eventfd", err))
		return nil
	}
	g.stop = NewFD(raw)
	if file != nil {
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
	if err := g.file.keep(); err != nil {
		g.log.Warn("if the path is removed, it cannot be put back", "path", g.file.path, "cause", err)
		return
	}
	raw, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == nil {
		const changes = unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_CREATE | unix.IN_ONLYDIR
		if _, err = unix.InotifyAddWatch(raw, path.Dir(g.file.path), changes); err == nil {
			g.changes = NewFD(raw)
			return
		}
		unix.Close(raw)
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
	fds := []unix.PollFd{
		{Fd: int32(g.stop.Raw()), Events: unix.POLLIN},
		{Fd: int32(g.socket.Raw()), Events: unix.POLLRDHUP},
		{Fd: -1, Events: unix.POLLIN},
	}
	if g.listen == nil {
		fds[1].Fd = -1
	}
	if g.changes != nil {
		fds[2].Fd = int32(g.changes.Raw())
		g.look() // at what has happened before
	}
	for {
		if _, err := unix.Poll(fds, -1); err == unix.EINTR {
			continue
		} else if err != nil || fds[0].Revents != 0 {
			return
		}
		if fds[1].Revents != 0 && !g.relisten() {
			fds[1].Fd = -1 // there is nothing more to see
		}
		if fds[2].Revents != 0 && g.changed() {
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
	g.repaired.Add(1)
	g.log.Error("a process that has the socket has called shutdown(2) on it, for everybody: connections that waited were reset; it listens again")
	time.Sleep(guardRest)
	return true
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
			if strings.TrimRight(text, "\x00") == name || mask&unix.IN_Q_OVERFLOW != 0 {
				ours = true
			}
			at += unix.SizeofInotifyEvent + length
		}
	}
}

// look puts the path back if it is gone. What somebody else has put there is left.
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
			g.log.Error("the path of the socket was removed, and cannot be put back", "path", g.file.path, "cause", err)
			return
		}
		g.displaced = false
		g.repaired.Add(1)
		g.log.Error("the path of the socket was removed: it is put back", "path", g.file.path)
	}
}
