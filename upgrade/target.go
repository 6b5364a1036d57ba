package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// A Target is a generation as it can be reached through its own sockets, whoever else is.
type Target struct {
	bound      []fdpass.Bound
	generation int
	// meet looks for what the generation has opened itself; nil once that was found.
	meet func(ctx context.Context) error
}

// target is the new generation of a handoff.
func (h *handoff) target() *Target { return &Target{bound: h.bound, generation: h.record.To} }

// Ports returns the private ports that the generation has, by the names of their sockets.
func (t *Target) Ports() map[string]int { return portsOf(t.bound, t.generation) }

// Dial opens a connection through a socket, by name, that only this generation can accept. It blocks until the kernel
// has the connection, which need not be accepted by then. The error wraps fdpass.ErrNotSteered if the socket is shared.
func (t *Target) Dial(ctx context.Context, socket string) (net.Conn, error) {
	for _, b := range t.bound {
		if b.Spec.FDName() != socket {
			continue
		}
		if own, ok := b.Socket.(fdpass.SelfBound); ok && t.meet != nil && own.Port(t.generation) == 0 {
			if err := t.meet(ctx); err != nil {
				return nil, err
			}
		}
		c, err := b.Socket.Dial(ctx, t.generation)
		if errors.Is(err, fdpass.ErrNotSteered) {
			err = fmt.Errorf("socket %s cannot be asked: %w; the supervisor's log says why it is not steered", socket, err)
		}
		return c, err
	}
	return nil, fmt.Errorf("there is no socket %s", socket)
}

// acceptInterval is the time between two looks for an accepted connection.
const acceptInterval = 5 * time.Millisecond

// Accept opens a connection as Dial does, and blocks until a process has accepted it, or ctx ends. It closes the
// connection then.
func (t *Target) Accept(ctx context.Context, socket string) error {
	c, err := t.Dial(ctx, socket)
	if err != nil {
		return err
	}
	defer c.Close()
	look := time.NewTicker(acceptInterval)
	defer look.Stop()
	for {
		census, err := fdpass.TakeCensus(t.bound)
		if err != nil {
			return err
		}
		if census.Accepted(c) || ended(c) {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return errors.New("it has not accepted a connection")
		}
	}
}

// ended reports whether the other end has said something or closed the connection. It blocks for a moment.
func ended(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	n, err := c.Read(make([]byte, 1))
	return n > 0 || errors.Is(err, io.EOF)
}
