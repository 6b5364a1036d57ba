package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// ErrReadyClosed is a process that has closed its ready descriptor without having
// written a newline to it.
var ErrReadyClosed = errors.New("it has closed its ready descriptor without a newline")

// closedGrace is how long a closed descriptor may turn out to be the first sign of
// an exit, which tells more.
const closedGrace = 200 * time.Millisecond

// FDReady is ready when a newline comes on a pipe whose writing end the process
// has, as s6 has it: https://skarnet.org/software/s6/notifywhenup.html. What comes
// before the newline does not matter, nor what comes after it.
//
// It owns both ends of the pipe. Wait closes the writing end.
type FDReady struct {
	read   *os.File
	write  *fdpass.FD
	number int
}

// Prepare makes the pipe and adds its writing end to c.Extra.
func (w *FDReady) Prepare(c *Command) error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return os.NewSyscallError("pipe2", err)
	}
	// Our end only. The two ends are open files of their own, so that the
	// service's does block.
	if err := unix.SetNonblock(ends[0], true); err != nil {
		unix.Close(ends[0])
		unix.Close(ends[1])
		return os.NewSyscallError("fcntl", err)
	}
	w.read = os.NewFile(uintptr(ends[0]), "ready")
	w.write = fdpass.NewFD(ends[1])
	w.number = FirstFD + len(c.Sockets) + len(c.Extra)
	c.Extra = append(c.Extra, w.write)
	return nil
}

// Number is the descriptor's number in the process, known after Prepare: 3 plus
// the number of sockets, if no other extra descriptor was there before.
func (w *FDReady) Number() int { return w.number }

// Wait is as Waiter has it. It returns ErrReadyClosed if the descriptor was closed
// and the process runs on.
func (w *FDReady) Wait(ctx context.Context, p *Process) error {
	since := time.Now()
	// As long as we have it, the end of the stream does not show.
	if err := w.write.Close(); err != nil {
		return err
	}
	result := make(chan error, 1)
	go func() { result <- readNewline(w.read) }()
	stop := func() {
		_ = w.read.SetReadDeadline(time.Unix(1, 0))
		<-result
	}
	select {
	case err := <-result:
		if errors.Is(err, ErrReadyClosed) {
			waitBriefly(ctx, p)
		}
		if hasEnded(p) {
			return exited(p)
		}
		return err
	case <-p.Done():
		stop()
		return exited(p)
	case <-ctx.Done():
		stop()
		return waitEnded(ctx, p, "fd", since, "no newline came on its ready descriptor (ready.by = \"fd\", as s6 has it)")
	}
}

// waitBriefly waits whether p ends within closedGrace.
func waitBriefly(ctx context.Context, p *Process) {
	timer := time.NewTimer(closedGrace)
	defer timer.Stop()
	select {
	case <-p.Done():
	case <-timer.C:
	case <-ctx.Done():
	}
}

// readNewline blocks until a newline has come, and returns ErrReadyClosed if the
// stream has ended before.
func readNewline(r *os.File) error {
	var buf [512]byte
	for {
		n, err := r.Read(buf[:])
		if bytes.IndexByte(buf[:n], '\n') >= 0 {
			return nil
		}
		if err != nil {
			if n == 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
				return ErrReadyClosed
			}
			return err
		}
	}
}

// String says what it waits for.
func (w *FDReady) String() string { return fmt.Sprintf("a newline on its descriptor %d", w.number) }

// Close closes what is left of the pipe.
func (w *FDReady) Close() error {
	if w.read == nil {
		return nil
	}
	err := w.read.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	return errors.Join(err, w.write.Close())
}
