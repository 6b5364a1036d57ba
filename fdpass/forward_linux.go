package fdpass

import (
	"context"
	"errors"
	"log/slog"
	"net"
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
// generation accepts by then, or to one that leads there. To that one they come from this machine.
type forwarder struct {
	log *slog.Logger
	// address says where a straggler goes that has come to local. It may be called at any time.
	address func(local net.Addr) string

	done atomic.Int64 // connections that were passed on
	lost atomic.Int64 // connections that could not be

	patience time.Duration // how long to wait for the next one from a seat that is given up

	open   context.Context // until close
	end    context.CancelFunc
	mu     sync.Mutex
	conns  map[*net.TCPConn]bool
	own    map[string]int // the addresses from which connections are passed on
	relays sync.WaitGroup
}

func newForwarder(log *slog.Logger) *forwarder {
	f := &forwarder{log: log, address: net.Addr.String, patience: leaveLimit, conns: make(map[*net.TCPConn]bool), own: make(map[string]int)}
	f.open, f.end = context.WithCancel(context.Background())
	return f
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
		if _, err := unix.Poll(fds, -1); err == unix.EINTR {
			continue
		} else if err != nil {
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

// take takes a straggler and begins to relay it, unless its cookie is one of skip:
// that is no client. It is not for use after close.
func (f *forwarder) take(fd *FD, skip []uint64) {
	if own, err := cookie(fd.Raw()); err == nil && slices.Contains(skip, own) {
		_ = fd.Close()
		return
	}
	client, err := connOf(fd)
	if err != nil {
		f.lost.Add(1)
		f.log.Warn("a connection was lost that the old generation did not accept", "cause", err)
		return
	}
	f.relays.Add(1)
	go func() {
		defer f.relays.Done()
		if err := f.relay(client); err != nil {
			f.lost.Add(1)
			f.log.Warn("a connection that the old generation did not accept could not be passed on", "client", peer(client), "cause", err)
		}
	}()
}

// connOf makes a connection of fd, which it takes.
func connOf(fd *FD) (*net.TCPConn, error) {
	file := os.NewFile(uintptr(fd.Disown()), "straggler")
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// relay connects and copies both ways until both have ended. The error is that
// of the connection: what happens after it is between the two.
func (f *forwarder) relay(client *net.TCPConn) error {
	defer f.drop(client)
	if err := f.hold(client); err != nil {
		return err
	}
	c, err := dialer().DialContext(f.open, "tcp", f.address(client.LocalAddr()))
	if err != nil {
		return err
	}
	server := c.(*net.TCPConn)
	defer f.drop(server)
	if err := f.hold(server); err != nil {
		return err
	}
	forget, err := f.note(client, server)
	if err != nil {
		return err
	}
	defer forget()
	f.done.Add(1)
	f.log.Info("passed on a connection that the old generation did not accept", "client", peer(client))
	(&relay{client: client, server: server}).run()
	return nil
}

// errCircle is what is wrong with a straggler that was passed on already.
var errCircle = errors.New("it comes from the supervisor itself, so that it would go round in a circle")

// note has a connection from server's address, which is passed on for client, be known
// for what it is if it comes to the forwarder again. It returns an error if client is
// such a one. The connection before it was noted when this one was accepted, or will be
// in a moment: then the next of them is the end of the circle.
func (f *forwarder) note(client, server *net.TCPConn) (forget func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.own[peer(client)] > 0 {
		return nil, errCircle
	}
	from := server.LocalAddr().String()
	f.own[from]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.own[from]--; f.own[from] == 0 {
			delete(f.own, from)
		}
	}, nil
}

// peer returns the address of the client, for the log. That of one which has broken
// off before the connection was accepted is not known any more.
func peer(client *net.TCPConn) string {
	if addr := client.RemoteAddr(); addr != nil {
		return addr.String()
	}
	return "gone"
}

// hold has close cut the connection.
func (f *forwarder) hold(c *net.TCPConn) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open.Err() != nil {
		return os.ErrClosed
	}
	f.conns[c] = true
	return nil
}

// drop closes the connection.
func (f *forwarder) drop(c *net.TCPConn) {
	c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}

// wait blocks until the relays that run have ended, or ctx ends, and then closes.
func (f *forwarder) wait(ctx context.Context) {
	stop := context.AfterFunc(ctx, f.cut)
	defer stop()
	f.relays.Wait()
	f.cut()
}

// close cuts the relays that run and waits for them.
func (f *forwarder) close() {
	f.cut()
	f.relays.Wait()
}

// cut breaks every relay off, and lets no other begin.
func (f *forwarder) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end()
	for c := range f.conns {
		c.Close()
	}
}

// dialer returns one that makes plain TCP connections.
func dialer() *net.Dialer {
	d := new(net.Dialer)
	d.SetMultipathTCP(false)
	return d
}

// tcpClose is TCP_CLOSE of tcp_states.h.
const tcpClose = 7

// tcpClosed reports whether nothing is left of a connection: it was reset, or
// both sides have ended it.
func tcpClosed(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	closed := true
	_ = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		closed = err != nil || info.State == tcpClose
	})
	return closed
}
