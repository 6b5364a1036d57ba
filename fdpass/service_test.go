package fdpass

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A service is a generation in the test: it accepts connections from its
// descriptor and answers them.
type service struct {
	gen   int
	fd    *FD // owned until the end of the test, as by a process that does not go away
	taken atomic.Int64

	wake    [2]int // a pipe whose write end stops it
	stopped sync.Once
	done    chan struct{} // closed once it does not accept any more
	conns   sync.WaitGroup
	handle  func(net.Conn)
}

// serve joins the socket as a generation, and accepts and answers until stop or
// the end of the test.
func serve(t *testing.T, s Socket, gen, heirOf int) *service {
	t.Helper()
	return serveWith(t, s, gen, heirOf, func(c net.Conn) { answer(c, gen) })
}

// serveWith is serve with something else to do with each connection, which is
// closed after it.
func serveWith(t *testing.T, s Socket, gen, heirOf int, handle func(net.Conn)) *service {
	t.Helper()
	fd, err := s.Join(gen, heirOf)
	if err != nil {
		t.Fatal(err)
	}
	sv := &service{gen: gen, fd: fd, done: make(chan struct{}), handle: handle}
	if err := unix.Pipe2(sv.wake[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	go sv.run()
	t.Cleanup(func() {
		sv.stop()
		sv.conns.Wait()
		unix.Close(sv.wake[0])
		fd.Close()
	})
	return sv
}

func (sv *service) run() {
	defer close(sv.done)
	for {
		fds := []unix.PollFd{{Fd: int32(sv.fd.Raw()), Events: unix.POLLIN}, {Fd: int32(sv.wake[0]), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			panic(err)
		}
		if fds[1].Revents != 0 {
			return
		}
		raw, _, err := unix.Accept4(sv.fd.Raw(), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		switch err {
		case nil:
		case unix.EINTR, unix.EAGAIN:
			continue
		default:
			return // shut down
		}
		sv.taken.Add(1)
		f := os.NewFile(uintptr(raw), "accepted")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			panic(err)
		}
		sv.conns.Add(1)
		go func() {
			defer sv.conns.Done()
			defer c.Close()
			sv.handle(c)
		}()
	}
}

// stop makes it accept no more, as a service does that was told to stop. What it
// has accepted it serves.
func (sv *service) stop() {
	sv.stopped.Do(func() { unix.Close(sv.wake[1]) })
	<-sv.done
}

// answer reads a line and sends it back behind the generation's number, then
// waits for the client's end.
func answer(c net.Conn, gen int) {
	c.SetDeadline(time.Now().Add(deadline))
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil {
		fmt.Fprintf(c, "%d %s", gen, line)
		io.Copy(io.Discard, c)
	}
}

// ask makes one connection, and returns which generation has answered. It ends
// with a reset, which leaves no port in TIME-WAIT.
func ask(address string) (gen int, err error) {
	c, err := net.DialTimeout("tcp", address, deadline)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.(*net.TCPConn).SetLinger(0)
	return askOn(c)
}

// askOn asks on a connection that is open.
func askOn(c net.Conn) (gen int, err error) {
	c.SetDeadline(time.Now().Add(deadline))
	if _, err := fmt.Fprintln(c, "hello"); err != nil {
		return 0, err
	}
	return readAnswer(c)
}

func readAnswer(c net.Conn) (gen int, err error) {
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscanf(line, "%d hello\n", &gen)
	return gen, err
}

// expectFrom asks n times, and expects the same generation to answer each time.
func expectFrom(t *testing.T, address string, n, want int) {
	t.Helper()
	for i := range n {
		if gen, err := ask(address); gen != want || err != nil {
			t.Fatalf("connection %d to %s was answered by %d (%v), not by %d", i, address, gen, err, want)
		}
	}
}

// steeredSpecs are sockets of every kind that can be steered.
var steeredSpecs = []string{"tcp://127.0.0.1:0", "tcp://[::1]:0", "tcp6://:0", "tcp://:0", "tcp4://:0"}

// mustSteer opens one spec and checks that it is steered.
func mustSteer(t *testing.T, text string) *steered {
	t.Helper()
	s := mustOpen(t, text)
	st, ok := s.(*steered)
	if !ok {
		t.Fatalf("%s is in mode %s", text, s.Mode())
	}
	return st
}

// addressesOf returns where clients of this machine reach a socket, in each
// family that it takes.
func addressesOf(s Socket) []string {
	addr := s.Addr()
	port := addr[strings.LastIndexByte(addr, ':'):]
	switch strings.TrimSuffix(addr, port) {
	case "tcp://[::]":
		return []string{"127.0.0.1" + port, "[::1]" + port}
	case "tcp6://[::]":
		return []string{"[::1]" + port}
	case "tcp://0.0.0.0":
		return []string{"127.0.0.1" + port}
	}
	return []string{strings.TrimPrefix(addr, "tcp://")}
}

// must fails the test at the first of the errors.
func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A crowd is clients that connect again and again.
type crowd struct {
	t       *testing.T
	over    atomic.Bool
	clients sync.WaitGroup
	asked   atomic.Int64
}

// startCrowd starts clients, each of which calls one with an address of the socket
// again and again, until stop or the end of the test.
func startCrowd(t *testing.T, s Socket, clients int, one func(address string)) *crowd {
	t.Helper()
	l := &crowd{t: t}
	addresses := addressesOf(s)
	for i := range clients {
		l.clients.Add(1)
		go func() {
			defer l.clients.Done()
			for !l.over.Load() {
				one(addresses[i%len(addresses)])
				l.asked.Add(1)
			}
		}()
	}
	t.Cleanup(l.stop)
	return l
}

// more waits until the clients have asked n more times.
func (l *crowd) more(n int64) {
	l.t.Helper()
	want := l.asked.Load() + n
	eventually(l.t, "the clients were answered", func() bool { return l.asked.Load() >= want })
}

func (l *crowd) stop() {
	l.over.Store(true)
	l.clients.Wait()
}

func mustAddrPort(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	ap, err := netip.ParseAddrPort(text)
	must(t, err)
	return ap
}
