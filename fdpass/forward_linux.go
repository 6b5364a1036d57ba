package fdpass

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A forwarder passes stragglers on: connections that were accepted in the stead
// of a generation that does not do it any more. Each is relayed, byte for byte,
// over a new connection to the address that its client asked for, where another
// generation accepts by then. To that one they come from this machine.
type forwarder struct {
	log  *slog.Logger
	done atomic.Int64 // connections that were passed on
	lost atomic.Int64 // connections that could not be

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
	relays sync.WaitGroup
}

// acceptRetry is how long to wait where accept(2) fails for want of something.
const acceptRetry = 10 * time.Millisecond

// acceptAll gives take every connection of the listening socket raw, which is
// borrowed, and blocks until it does not listen any more. It blocks in accept(2)
// where a process of the generation was faster, and O_NONBLOCK, which is for all
// who share the open file description, is not ours to set. shutdown(2) ends that.
func acceptAll(raw int, take func(*FD)) {
	for {
		fds := []unix.PollFd{{Fd: int32(raw), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return
		}
		if fds[0].Revents&unix.POLLIN == 0 && fds[0].Revents != 0 {
			return
		}
		conn, _, err := unix.Accept4(raw, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch {
		case err == nil:
			take(NewFD(conn))
		case err == unix.EINTR, err == unix.EAGAIN, err == unix.ECONNABORTED:
		case err == unix.EMFILE, err == unix.ENFILE, err == unix.ENOBUFS, err == unix.ENOMEM:
			time.Sleep(acceptRetry)
		default:
			return
		}
	}
}

// take takes a straggler and begins to relay it, unless it comes from one of skip:
// that is no client.
func (f *forwarder) take(fd *FD, skip []netip.AddrPort) {
	file := os.NewFile(uintptr(fd.Disown()), "straggler")
	client, err := net.FileConn(file)
	file.Close()
	if err == nil {
		if from, ok := client.RemoteAddr().(*net.TCPAddr); ok && slices.Contains(skip, plain(from.AddrPort())) {
			client.Close()
			return
		}
	}
	if err != nil || !f.begin(client) {
		f.lost.Add(1)
		f.log.Warn("a connection was lost that the old generation did not accept", "cause", err)
		return
	}
	go func() {
		defer f.end(client)
		if err := f.relay(client); err != nil {
			f.lost.Add(1)
			f.log.Warn("a connection that the old generation did not accept could not be passed on", "client", client.RemoteAddr().String(), "cause", err)
		}
	}()
}

// begin notes that a relay uses a connection, which close cuts; it is false, and
// the connection closed, once f is closed.
func (f *forwarder) begin(c net.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		c.Close()
		return false
	}
	if f.conns == nil {
		f.conns = make(map[net.Conn]bool)
	}
	f.conns[c] = true
	f.relays.Add(1)
	return true
}

// end notes that a relay does not use a connection any more.
func (f *forwarder) end(c net.Conn) {
	c.Close()
	f.mu.Lock()
	delete(f.conns, c)
	f.mu.Unlock()
	f.relays.Done()
}

// relay connects and copies both ways until both have ended. The error is that
// of the connection: what happens after it is between the two.
func (f *forwarder) relay(client net.Conn) error {
	server, err := dialer().DialContext(context.Background(), "tcp", client.LocalAddr().String())
	if err != nil {
		return err
	}
	if !f.begin(server) {
		return nil // cut like all the others
	}
	defer f.end(server)
	f.done.Add(1)
	f.log.Info("passed on a connection that the old generation did not accept", "client", client.RemoteAddr().String())
	var back sync.WaitGroup
	back.Add(1)
	go func() {
		defer back.Done()
		pipe(client, server)
	}()
	pipe(server, client)
	back.Wait()
	return nil
}

// pipe copies what comes from one connection to the other, and its end. If it
// does not end well, neither does the other.
func pipe(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil && !errors.Is(err, net.ErrClosed) {
		to.Close()
		from.Close()
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}

// dialer returns one that makes plain TCP connections.
func dialer() *net.Dialer {
	d := new(net.Dialer)
	d.SetMultipathTCP(false)
	return d
}

// close cuts the relays that run and waits for them.
func (f *forwarder) close() {
	f.mu.Lock()
	f.closed = true
	for c := range f.conns {
		c.Close()
	}
	f.mu.Unlock()
	f.relays.Wait()
}
