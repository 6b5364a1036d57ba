package fdpass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNotSteered is returned by Socket.Dial in shared mode, where it cannot be
// said which generation would accept the connection.
var ErrNotSteered = errors.New("the socket is shared by the generations, so that it cannot be said which one answers")

// A probeConn is a connection that only one generation can accept. As long as it
// is open, its packets go there.
type probeConn struct {
	net.Conn
	gen      int
	from, to netip.AddrPort
	port     *FD         // owned; keeps the port while it is not known whether there is a connection
	answered atomic.Bool // something has come: it does not wait in a queue any more
	once     sync.Once
	release  func()
}

// Read reads from the connection.
func (c *probeConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.answered.Store(true)
	}
	return n, err
}

// Close closes the connection. The program forgets it first: once its port is
// free, another client may have it.
func (c *probeConn) Close() error {
	c.once.Do(c.release)
	return c.Conn.Close()
}

// maxProbes is how many connections to single generations there may be at once
// on one socket. The kernel takes programs for about twice as many, and each has
// to leave room for what else they say.
const maxProbes = 64

func (st *steered) Dial(ctx context.Context, gen int) (net.Conn, error) {
	// The kernel would choose another generation for it.
	if err := st.Listening(gen); err != nil {
		return nil, err
	}
	local, err := st.endpoint.addrPort()
	if err != nil {
		return nil, err
	}
	// An address of our own is at the same time where it comes from and where it
	// goes to. With the port that makes one connection and no other.
	ip := local.Addr()
	if ip.IsUnspecified() {
		ip = loopback(st.endpoint.network)
	}
	pc := &probeConn{gen: gen, to: netip.AddrPortFrom(ip, local.Port())}
	pc.release = func() { st.undial(pc) }
	d := dialer()
	d.Control = func(_, _ string, c syscall.RawConn) (err error) {
		controlErr := c.Control(func(fd uintptr) { err = st.prepare(pc, int(fd)) })
		return cmp.Or(controlErr, err)
	}
	pc.Conn, err = d.DialContext(ctx, "tcp", pc.to.String())
	if err != nil {
		pc.once.Do(pc.release)
	}
	if pc.port != nil {
		_ = pc.port.Close() // a duplicate
	}
	if err != nil {
		return nil, err
	}
	return pc, nil
}

// prepare binds the socket raw, which is borrowed, to a port that the kernel
// chooses, and steers the connection that it will be to its generation: before
// the first packet.
func (st *steered) prepare(c *probeConn, raw int) error {
	if err := c.bind(raw); err != nil {
		return err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return err
	}
	if st.seatOf(c.gen) == nil {
		return fmt.Errorf("generation %d has no socket on %s", c.gen, st.Addr())
	}
	if !slices.Contains(st.dialing, c) { // it is, where the dialer has to take another port
		if len(st.dialing) == maxProbes {
			return fmt.Errorf("%d connections to single generations are open on %s already", maxProbes, st.Addr())
		}
		st.dialing = append(st.dialing, c)
	}
	return st.steer()
}

// bind binds the socket raw, which is borrowed, to a port that the kernel chooses,
// and notes it.
func (c *probeConn) bind(raw int) error {
	sa, _, err := target{addr: netip.AddrPortFrom(c.to.Addr(), 0)}.sockaddr()
	if err != nil {
		return err
	}
	if err := unix.Bind(raw, sa); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if sa, err = unix.Getsockname(raw); err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	from, err := netip.ParseAddrPort(addressOf(sa))
	if err != nil {
		return err
	}
	if c.port != nil {
		_ = c.port.Close() // of the port before
	}
	// Borrowed, so that only the duplicate is closed.
	borrowed := NewFD(raw)
	defer borrowed.Disown()
	if c.port, err = borrowed.Dup(); err != nil {
		return err
	}
	c.from = from
	return nil
}

// undial forgets the connection. If it waits in the queue still, its seat
// remembers that it is for nobody else.
func (st *steered) undial(c *probeConn) {
	waiting := st.waiting(c)
	st.mu.Lock()
	defer st.mu.Unlock()
	if s := st.seatOf(c.gen); s != nil {
		s.dialed = append(s.dialed, waiting...)
	}
	st.dialing = slices.DeleteFunc(st.dialing, func(other *probeConn) bool { return other == c })
	if !st.closed {
		_ = st.steer() // the same program without an entry that nothing matches any more
	}
}

// waiting returns the cookie of the connection's other end if no process has
// accepted that.
func (st *steered) waiting(c *probeConn) (cookies []uint64) {
	at, err := st.endpoint.reach()
	if err != nil || c.answered.Load() {
		return nil
	}
	census, err := takeCensus([]reach{at})
	if err != nil {
		return nil
	}
	for conn := range census.to(at) {
		if conn.inode == 0 && !conn.handshake() && plain(conn.peer) == plain(c.from) {
			cookies = append(cookies, conn.cookie)
		}
	}
	return cookies
}

// loopback returns an address at which a socket on every address is reached.
func loopback(network string) netip.Addr {
	if network == TCP6 {
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
