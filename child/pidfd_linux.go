package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// signalGroupFlag is PIDFD_SIGNAL_PROCESS_GROUP (Linux 6.9), see
// pidfd_send_signal(2).
const signalGroupFlag = 1 << 2

// A pidfd holds on to one process, see pidfd_open(2): other than a pid it never
// comes to mean another one. It owns its descriptor, which is in the runtime's
// poller, so that waiting costs a goroutine and no thread.
type pidfd struct {
	file *os.File
	conn syscall.RawConn
}

// newPidfd takes raw, and closes it on error.
func newPidfd(raw int) (*pidfd, error) {
	// The runtime polls what does not block. For a pidfd that changes nothing
	// but waitid(2), which is not used on it, and nobody else has this one.
	if err := unix.SetNonblock(raw, true); err != nil {
		unix.Close(raw)
		return nil, os.NewSyscallError("fcntl", err)
	}
	file := os.NewFile(uintptr(raw), "pidfd")
	conn, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, err
	}
	return &pidfd{file: file, conn: conn}, nil
}

// openPidfd holds the process that has the number pid now. It returns
// os.ErrProcessDone if none has.
func openPidfd(pid int) (*pidfd, error) {
	raw, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil, os.ErrProcessDone
	case err != nil:
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return newPidfd(raw)
}

// openMember holds the process id, or returns os.ErrProcessDone if that is gone,
// whoever has its number now.
func openMember(id procID) (*pidfd, error) {
	p, err := openPidfd(id.pid)
	if err != nil {
		return nil, err
	}
	// Looked at after the opening: if the number still means the same process
	// now, then it did before.
	st, err := readStat(id.pid)
	if err == nil && st.procID != id || errors.Is(err, os.ErrNotExist) {
		err = os.ErrProcessDone
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// gonePidfd holds no process: it has ended.
func gonePidfd() *pidfd { return &pidfd{} }

// signal sends sig. It returns os.ErrProcessDone if the process was waited for
// already; one that nobody has waited for takes signals and ignores them.
func (p *pidfd) signal(sig unix.Signal) error { return p.send(sig, 0) }

// signalGroup sends sig, in one step that no fork can slip through, to the
// process group that the process leads or has led.
func (p *pidfd) signalGroup(sig unix.Signal) error { return p.send(sig, signalGroupFlag) }

func (p *pidfd) send(sig unix.Signal, flags int) error {
	if p.conn == nil {
		return os.ErrProcessDone
	}
	var err error
	if e := p.conn.Control(func(fd uintptr) {
		err = unix.PidfdSendSignal(int(fd), sig, nil, flags)
	}); e != nil {
		return e
	}
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return os.NewSyscallError("pidfd_send_signal", err)
}

// wait blocks until the process has ended, close is called (os.ErrClosed), or
// ctx ends, whose cause it returns. Only one goroutine may wait.
func (p *pidfd) wait(ctx context.Context) error {
	stop := cancelIO(ctx, p.file.SetReadDeadline)
	var pollErr error
	err := p.conn.Read(func(fd uintptr) bool {
		var n int
		n, pollErr = pollIn(int(fd))
		return n > 0 || pollErr != nil
	})
	stop()
	switch {
	case pollErr != nil:
		return os.NewSyscallError("poll", pollErr)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("wait for a pidfd: %w", err)
	}
	return nil
}

func (p *pidfd) close() {
	if p.file != nil {
		p.file.Close()
	}
}

// pollIn says without blocking whether fd is readable.
func pollIn(fd int) (int, error) {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// cancelIO ends blocked calls by a deadline in the past once ctx ends. The
// returned function ends the watch, waits for it, and takes the deadline away.
func cancelIO(ctx context.Context, setDeadline func(time.Time) error) (stop func()) {
	finished := make(chan struct{})
	cancel := context.AfterFunc(ctx, func() {
		defer close(finished)
		// Fails only for a file that is closed, where nothing blocks any more.
		_ = setDeadline(time.Unix(1, 0))
	})
	return func() {
		if !cancel() {
			<-finished
			_ = setDeadline(time.Time{})
		}
	}
}
