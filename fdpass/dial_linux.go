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

// Close closes the connection.
func (c *probeConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.release)
	return err
}

func (st *steered) Dial(ctx context.Context, gen int) (net.Conn, error) {
	local, err := netip.ParseAddrPort(st.endpoint.address)
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
		return nil, err
	}
	return pc, nil
}

// prepare binds the socket raw, which is borrowed, to a port that the kernel
// chooses, and steers the connection that it will be to its generation: before
// the first packet.
func (st *steered) prepare(c *probeConn, raw int) error {
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
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return err
	}
	if st.seatOf(c.gen) == nil {
		return fmt.Errorf("generation %d has no socket on %s", c.gen, st.Addr())
	}
	c.from = from
	if !slices.Contains(st.dialing, c) { // it is, where the dialer has to take another port
		st.dialing = append(st.dialing, c)
	}
	return st.steer()
}

// undial forgets the connection. If it has no answer, it may wait in the queue
// still, closed as it is; then its seat remembers that it is for nobody else.
func (st *steered) undial(c *probeConn) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if s := st.seatOf(c.gen); s != nil && !c.answered.Load() {
		s.dialed = append(s.dialed, plain(c.from))
	}
	st.dialing = slices.DeleteFunc(st.dialing, func(other *probeConn) bool { return other == c })
	if !st.closed {
		_ = st.steer() // the same program without an entry that nothing matches any more
	}
}

// loopback returns an address at which a socket on every address is reached.
func loopback(network string) netip.Addr {
	if network == TCP6 {
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
