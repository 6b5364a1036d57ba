package child

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// A Process is the main process of a generation. It is held by a pidfd, which
// the Process owns, and never touched by its number.
//
// All methods may be called from several goroutines at once.
type Process struct {
	id   procID
	fd   *pidfd
	tree *Tree

	lender *lender // owned; nil where it was offered no sockets; set before others have the Process

	done     chan struct{} // closed once exit is set
	exit     Exit
	watching sync.WaitGroup // the goroutine that watches an adopted process
}

// newProcess takes fd.
func newProcess(id procID, fd *pidfd) *Process {
	p := &Process{id: id, fd: fd, done: make(chan struct{})}
	p.tree = &Tree{main: p}
	return p
}

// Pid returns the process ID. It is for showing and for comparing with what the
// kernel says about a living process; Signal is for signals.
func (p *Process) Pid() int { return p.id.pid }

// StartTime returns when the process was started, in clock ticks since boot, as
// /proc/PID/stat has it. With the pid it names the process until the next boot.
func (p *Process) StartTime() uint64 { return p.id.start }

// Signal sends sig to this one process. It returns os.ErrProcessDone if the
// process has ended, and os.ErrClosed after Close.
func (p *Process) Signal(sig unix.Signal) error {
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
		return p.fd.signal(sig)
	}
}

// Done returns a channel that is closed once the process has ended and, if it is
// our child, has been waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exiting reports whether the process has ended or is about to: the kernel is
// taking it apart. Its descriptors may be closed already while Done is not.
func (p *Process) Exiting() bool {
	select {
	case <-p.done:
		return true
	default:
	}
	st, err := readStat(p.id.pid)
	return err != nil || st.start != p.id.start || st.exiting
}

// Exit returns how the process ended. Before Done is closed, and for a process
// that is not our child, that is not known.
func (p *Process) Exit() Exit {
	select {
	case <-p.done:
		return p.exit
	default:
		return Exit{}
	}
}

// Tree returns the process with all that descends from it, the same Tree at each
// call. It is still of use when the process itself has ended.
func (p *Process) Tree() *Tree { return p.tree }

// Close gives the pidfd back, ends the watch over an adopted process, and answers its
// calls of bind(2) no more, if it was offered sockets. The
// process itself is left alone; a child is still waited for, and Done closed.
// Closing again does nothing.
func (p *Process) Close() error {
	p.fd.close()
	p.lender.close()
	p.watching.Wait()
	return nil
}

// String names the process for logs.
func (p *Process) String() string { return fmt.Sprintf("process %d", p.id.pid) }

// ended is called once, by whoever waits for the process.
func (p *Process) ended(e Exit) {
	p.exit = e
	close(p.done)
}
