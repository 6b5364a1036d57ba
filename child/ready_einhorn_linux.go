package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// einhornSocket is the variable with the path of einhorn's command socket, and einhornAck the command by which a worker says there that it is
	// up. Depending on its age, a client library writes it as JSON or as YAML with escapes, on one line.
	einhornSocket = "EINHORN_SOCK_PATH"
	einhornAck    = "worker:ack"

	// maxAck is how much of a line is read.
	maxAck = 4096
)

// errNoNotify is a command that has no socket beside which another could be.
var errNoNotify = errors.New("there is no notify socket")

// EinhornReady is ready when it says so on einhorn's command socket, as the workers
// of "einhorn -m manual" do: https://github.com/contribsys/einhorn. Nothing else that
// is said there is answered, and nobody but the process and its descendants is
// listened to.
//
// It owns the socket, which lies beside the one of Command.Notify. Wait closes it.
type EinhornReady struct{ listener *net.UnixListener }

// Prepare makes the socket and adds its path to c.Env.
func (w *EinhornReady) Prepare(c *Command) error {
	if c.Notify == "" {
		return errNoNotify
	}
	path := filepath.Join(filepath.Dir(c.Notify), "ack"+filepath.Ext(c.Notify))
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // left by a supervisor that was killed
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	// The service may be another user's. Who it is, the kernel tells.
	if err := os.Chmod(path, 0o666); err != nil {
		l.Close()
		return err
	}
	w.listener = l
	c.Env = append(withoutVariables(c.Env, []string{einhornSocket}), einhornSocket+"="+path)
	return nil
}

// Wait is as Waiter has it.
func (w *EinhornReady) Wait(ctx context.Context, p *Process) error {
	asked, since := ctx, time.Now()
	ctx, cancel := untilEnded(ctx, p)
	defer cancel()
	said := make(chan struct{}, 1)
	accepted := make(chan error, 1)
	go func() { accepted <- w.accept(ctx, p, said) }()
	var err error
	select {
	case <-said:
		w.listener.Close()
		<-accepted
	case err = <-accepted: // it cannot go on, or was closed
	case <-ctx.Done():
		w.listener.Close()
		<-accepted
	}
	switch {
	case hasEnded(p):
		return exited(p)
	case asked.Err() != nil:
		return waitEnded(asked, p, "einhorn", since, "no "+einhornAck+" came on its "+einhornSocket+` (ready.by = "einhorn")`)
	}
	return err
}

// accept listens to whoever connects, each for as long as ctx lasts, and returns when the
// listener was closed and nobody is listened to any more.
func (w *EinhornReady) accept(ctx context.Context, p *Process, said chan<- struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer cancel()
	for {
		conn, err := w.listener.AcceptUnix()
		if err != nil {
			return err
		}
		listening.Add(1)
		go func() {
			defer listening.Done()
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer conn.Close()
			defer stop()
			if !p.Tree().Contains(peer(conn)) {
				return
			}
			line, _ := bufio.NewReader(io.LimitReader(conn, maxAck)).ReadString('\n')
			if strings.Contains(line, einhornAck) {
				select {
				case said <- struct{}{}:
				default:
				}
			}
		}()
	}
}

// peer is the pid of the process that has connected, or 0.
func peer(conn *net.UnixConn) (pid int) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	return pid
}

// String says what it waits for.
func (w *EinhornReady) String() string { return fmt.Sprintf("%s on its %s", einhornAck, einhornSocket) }

// Close removes the socket.
func (w *EinhornReady) Close() error {
	if w.listener == nil {
		return nil
	}
	if err := w.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
