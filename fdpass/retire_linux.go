package fdpass

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// retireInterval is the time between two looks at a socket that retires.
	retireInterval = 10 * time.Millisecond
	// retireLooks is how many looks in a row must find nothing: a connection
	// is for a moment neither a handshake nor in the queue, and a SYN that the
	// filter came too late for becomes a handshake after the first look.
	retireLooks = 3
)

func (sh *shared) Retire(ctx context.Context) error {
	if sh.foreign {
		// systemd has it too and goes on taking connections, or not, as its
		// unit says. Whatever waits there waits on.
		if err := sh.open(); err != nil {
			return err
		}
		return sh.Close()
	}
	if err := sh.use(sh.stopTaking); err != nil {
		return err
	}
	err := sh.drain(ctx)
	if closeErr := sh.Close(); err == nil {
		err = closeErr
	}
	return err
}

// stopTaking keeps new connections away, as far as the kernel has a way that
// does not touch those that wait. TCP: a filter, or else a sink, after which
// clients send their SYN again and again until they find somebody else. A unix
// path: without its file nobody finds it. An abstract name and UDP have none.
func (sh *shared) stopTaking(raw int) error {
	if !sh.endpoint.tcp() {
		return sh.removeFile()
	}
	err := dropSYN(raw)
	if errors.Is(err, unix.EPERM) {
		sh.sink, err = sh.openSink(raw)
	}
	if err != nil {
		// No reason to close at once: what waits can be served all the same.
		sh.log.Warn("new connections cannot be kept away from a socket that is to be closed; those that come too late may be reset", "socket", sh.spec.FDName(), "error", err)
	}
	return nil
}

// drain waits until nothing waits in the socket.
func (sh *shared) drain(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for quiet := 0; quiet < retireLooks; {
		select {
		case <-ctx.Done():
			return sh.leftBehind(ctx)
		case <-timer.C:
			timer.Reset(retireInterval)
		}
		var busy bool
		err := sh.use(func(raw int) (err error) {
			busy, err = sh.busy(raw)
			return err
		})
		if err != nil {
			return err
		}
		quiet++
		if busy {
			quiet = 0
		}
	}
	return nil
}

// busy reports whether anything waits in the socket or is about to.
func (sh *shared) busy(raw int) (bool, error) {
	waiting, err := readable(raw)
	if err != nil || waiting || !sh.endpoint.tcp() {
		return waiting, err
	}
	// Without inet_diag the kernel does not tell; then the queue has to do.
	handshakes, err := openHandshakes(raw)
	return err == nil && handshakes > 0, nil
}

// leftBehind makes the error about what still waits.
func (sh *shared) leftBehind(ctx context.Context) error {
	what := "datagrams"
	if sh.endpoint.listens() {
		what = "connections"
		if st, err := sh.Stats(); err == nil && st.Queue > 0 {
			what = fmt.Sprintf("%d connections", st.Queue)
		}
	}
	return fmt.Errorf("socket %s (%s) was closed while %s waited in it: %w", sh.name(), sh.Addr(), what, context.Cause(ctx))
}

func (sh *shared) name() string {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.spec.FDName()
}

// synFilter is a socket filter, see "Linux Socket Filtering" in the kernel's
// documentation, that drops TCP segments with SYN and without ACK and passes
// everything else whole. For TCP it sees the segment from its own header on, so
// IPv4 and IPv6 are alike. The connections that a listener accepts inherit its
// filter: this one does nothing to them.
func synFilter() []unix.SockFilter {
	const flagsOffset, syn, ack = 13, 0x02, 0x10
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flagsOffset},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn | ack},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff},
	}
}

// dropSYN makes the listening TCP socket raw, which is borrowed, ignore new
// connections: no answer and no reset. Handshakes under way, of which the SYN
// has come already, go on. It lasts as long as any process has the socket.
//
// Newer kernels, of which 6.18 is one in its later stable releases, want
// CAP_NET_ADMIN for a filter on a TCP socket and say EPERM without.
func dropSYN(raw int) error {
	filter := synFilter()
	prog := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return os.NewSyscallError("setsockopt SO_ATTACH_FILTER", unix.SetsockoptSockFprog(raw, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, prog))
}
