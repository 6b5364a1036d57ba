package fdpass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	sh.guard.close()
	if err := sh.use(sh.stopTaking); err != nil {
		return err
	}
	return emptyAndClose(ctx, sh, sh.name(), func() (busy bool, err error) {
		err = sh.use(func(raw int) error {
			busy, err = sh.endpoint.busy(raw)
			return err
		})
		return busy, err
	})
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
		err = sh.divert(raw)
	}
	if err != nil {
		reportTaking(sh.spec, err, sh.log)
	}
	return nil
}

// divert sends new connections to a sink.
func (sh *shared) divert(raw int) (err error) {
	// A socket that listens already can still be made the first of a group.
	if err := reusePort.set(raw); err != nil {
		return err
	}
	if sh.sink, err = openSink(sh.spec, sh.endpoint); err != nil {
		return err
	}
	return steering{to: []int{1}}.attach(raw)
}

// reportTaking tells the log that a socket which retires cannot be kept from
// taking more. That is no reason to close it at once: what waits can be served.
func reportTaking(s Spec, err error, log *slog.Logger) {
	log.Warn("new connections cannot be kept away from a socket that is to be closed; those that come too late may be reset", "socket", s.FDName(), "cause", err)
}

func (st *steered) Retire(ctx context.Context) error {
	st.mu.Lock()
	if err := st.open(); err != nil {
		st.mu.Unlock()
		return err
	}
	st.retires = true
	foreign, name := st.foreign(), st.spec.FDName()
	if !foreign {
		if err := st.stopTaking(); err != nil {
			reportTaking(st.spec, err, st.log)
		}
	}
	st.mu.Unlock()
	if foreign {
		return st.Close()
	}
	return emptyAndClose(ctx, st, name, st.busy)
}

// stopTaking keeps new connections away from every seat. The caller holds mu.
func (st *steered) stopTaking() (err error) {
	for _, s := range st.seats {
		if err = dropSYN(s.fd.Raw()); err != nil {
			break
		}
	}
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	if st.sink, err = openSink(st.spec, st.endpoint); err != nil {
		return err
	}
	return st.steer()
}

// busy reports whether anything waits in a seat or is about to.
func (st *steered) busy() (bool, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.open(); err != nil {
		return false, err
	}
	for _, s := range st.seats {
		if busy, err := st.endpoint.busy(s.fd.Raw()); busy || err != nil {
			return busy, err
		}
	}
	return false, nil
}

// emptyAndClose closes s once it is not busy for several looks in a row, or ctx ends.
func emptyAndClose(ctx context.Context, s Socket, name string, busy func() (bool, error)) error {
	err := drain(ctx, busy)
	if errors.Is(err, context.Cause(ctx)) && ctx.Err() != nil {
		err = leftBehind(s, name, err)
	}
	if closeErr := s.Close(); err == nil {
		err = closeErr
	}
	return err
}

// drain waits until nothing is busy. If ctx ends first, it returns its cause.
func drain(ctx context.Context, busy func() (bool, error)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for quiet := 0; quiet < retireLooks; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			timer.Reset(retireInterval)
		}
		found, err := busy()
		if err != nil {
			return err
		}
		quiet++
		if found {
			quiet = 0
		}
	}
	return nil
}

// busy reports whether anything waits in the socket raw, which is borrowed, or
// is about to.
func (e endpoint) busy(raw int) (bool, error) {
	waiting, err := readable(raw)
	if err != nil || waiting || !e.tcp() {
		return waiting, err
	}
	// Without inet_diag the kernel does not tell; then the queue has to do.
	handshakes, err := openHandshakes(raw)
	return err == nil && handshakes > 0, nil
}

// leftBehind makes the error about what still waits.
func leftBehind(s Socket, name string, cause error) error {
	what := "datagrams"
	if spec, err := ParseSpec(s.Addr()); err == nil && spec.listens() {
		what = "connections"
		if st, err := s.Stats(); err == nil && st.Queue > 0 {
			what = fmt.Sprintf("%d connections", st.Queue)
		}
	}
	return fmt.Errorf("socket %s (%s) was closed while %s waited in it: %w", name, s.Addr(), what, cause)
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
