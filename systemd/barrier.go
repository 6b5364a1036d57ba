package systemd

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Barrier blocks until the manager has taken in everything that was sent to it before, or ctx ends. See
// sd_notify_barrier(3). It does so also for a process to which the manager does
// not listen otherwise.
func (n *Notifier) Barrier(ctx context.Context) error {
	if n == nil {
		return nil
	}
	// Once nobody has the other end any more, reading ends.
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	raw, err := w.SyscallConn()
	if err == nil {
		var sent error
		err = raw.Control(func(fd uintptr) { sent = n.write([]byte("BARRIER=1"), unix.UnixRights(int(fd))) })
		if err == nil {
			err = sent
		}
	}
	w.Close()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { r.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := r.Read(make([]byte, 1)); err != nil && ctx.Err() != nil {
		return fmt.Errorf("the service manager does not answer: %w", ctx.Err())
	}
	return nil
}
