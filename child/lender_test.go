package child_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// binder does what the lines of its variable STEPS say, and prints what came of each:
//
//	socket FAMILY FLAGS       a stream socket
//	bind ADDRESS              of it
//	listen BACKLOG
//	show                      its inode, flags and address
//	serve NETWORK ADDRESS     as Go does, and answers one connection
//	unlink PATH, chmod PATH, cd PATH
//	reuseport
//	netns                     goes to a network of its own
//	fork                      the rest is done by a child
//	wait                      for a line on stdin
func binder() {
	runtime.LockOSThread() // a thread has its own network namespace
	in := bufio.NewReader(os.Stdin)
	fd := -1
	lines := strings.Split(os.Getenv("STEPS"), "\n")
	for i, line := range lines {
		word := strings.Fields(line)
		number := func(i int) int { n, _ := strconv.Atoi(word[i]); return n }
		var err error
		switch word[0] {
		case "socket":
			fd, err = unix.Socket(number(1), unix.SOCK_STREAM|number(2), 0)
		case "reuseport":
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		case "bind":
			err = unix.Bind(fd, sockaddr(word[1]))
		case "listen":
			err = unix.Listen(fd, number(1))
		case "show":
			link, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
			flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
			fdFlags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			fmt.Printf("%s nonblock=%v cloexec=%v ", link, flags&unix.O_NONBLOCK != 0, fdFlags != 0)
		case "serve":
			err = serveOne(word[1], word[2])
		case "unlink":
			err = unix.Unlink(word[1])
		case "chmod":
			err = unix.Chmod(word[1], 0o600)
		case "cd":
			err = unix.Chdir(word[1])
		case "netns":
			err = unix.Unshare(unix.CLONE_NEWNET)
		case "fork":
			cmd := exec.Command("/proc/self/exe")
			cmd.Args[0] = "binder"
			cmd.Env = append(os.Environ(), "STEPS="+strings.Join(lines[i+1:], "\n"))
			cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
			if err = cmd.Run(); err == nil {
				return
			}
		case "wait":
			_, err = in.ReadString('\n')
		}
		fmt.Println(word[0], err)
	}
}

// sockaddr takes "127.0.0.1:80", "[::]:80" and paths.
func sockaddr(text string) unix.Sockaddr {
	a, err := net.ResolveTCPAddr("tcp", text)
	switch {
	case err != nil:
		return &unix.SockaddrUnix{Name: text}
	case a.IP.To4() != nil:
		return &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())}
	}
	return &unix.SockaddrInet6{Port: a.Port, Addr: [16]byte(a.IP.To16())}
}

func serveOne(network, address string) error {
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := l.Accept()
	if err != nil {
		return err
	}
	fmt.Fprintf(c, "hello from %s", l.Addr())
	return c.Close()
}

// bound opens sockets as a supervisor has them, and returns offers of what one generation gets.
func bound(t *testing.T, specs ...string) []child.Offer {
	t.Helper()
	var all []fdpass.Spec
	for _, text := range specs {
		s, err := fdpass.ParseSpec(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	bound, _, err := fdpass.Open(all, fdpass.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var offers []child.Offer
	for _, b := range bound {
		fd, err := b.Socket.Join(1, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			fd.Close()
			b.Socket.Close()
		})
		offers = append(offers, child.Offer{Bound: b, FD: fd, Alone: true})
	}
	return offers
}

// address is where the socket of an offer is, without the network.
func address(o child.Offer) string {
	_, address, _ := strings.Cut(o.Bound.Socket.Addr(), "://")
	return address
}

// A binding is a binder that runs.
type binding struct {
	*child.Process
	stdin *os.File
	out   *bufio.Reader
}

// bind starts a binder with these offers.
func bind(t *testing.T, r *child.Reaper, offers []child.Offer, log *slog.Logger, steps ...string) *binding {
	t.Helper()
	c := helper("binder", "STEPS="+strings.Join(steps, "\n"))
	return startBinder(t, r, c, offers, log)
}

func startBinder(t *testing.T, r *child.Reaper, c child.Command, offers []child.Offer, log *slog.Logger) *binding {
	t.Helper()
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Offers, c.Log = offers, log
	fds := make([]*fdpass.FD, 2)
	for i, f := range []*os.File{inR, outW} {
		if fds[i], err = fdpass.DupConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		defer fds[i].Close()
	}
	for _, fd := range fds { // the poller of ours has made them not block
		if err := unix.SetNonblock(fd.Raw(), false); err != nil {
			t.Fatal(err)
		}
	}
	c.Stdin, c.Stdout = fds[0], fds[1]
	p, err := r.Start(deadline(t), c)
	if err != nil {
		t.Fatal(err)
	}
	b := &binding{p, inW, bufio.NewReader(outR)}
	t.Cleanup(func() {
		inW.Close()
		waitDone(t, p)
		p.Close()
		outR.Close()
	})
	return b
}

// line returns what the binder says next.
func (b *binding) line(t *testing.T) string {
	t.Helper()
	line, err := b.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return strings.TrimSpace(line)
}

// expect fails the test unless the binder says just this, line for line.
func (b *binding) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := b.line(t); got != w {
			t.Errorf("got %q, want %q", got, w)
		}
	}
}

// A program that binds the address gets the socket, whose clients have been waiting, and its
// backlog stays. Other addresses are its own.
func TestAdoptServe(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	for _, spec := range []string{"tcp://127.0.0.1:0?mode=steered", "tcp://127.0.0.1:0?mode=shared", "tcp://[::]:0", "tcp6://[::1]:0", "unix://" + t.TempDir() + "/s"} {
		offers := bound(t, spec)
		o := offers[0]
		network, at := "tcp", address(o)
		if strings.HasPrefix(spec, "unix") {
			network = "unix"
		}
		before, err := o.Bound.Socket.Stats()
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial(network, at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		b := bind(t, r, offers, nil, "serve "+network+" "+at)
		if err := b.Bound(deadline(t)); err != nil {
			t.Fatal(err)
		}
		var answer bytes.Buffer
		if _, err := answer.ReadFrom(c); err != nil || answer.String() != "hello from "+at {
			t.Errorf("%s: %q, %v", spec, &answer, err)
		}
		b.expect(t, "serve <nil>")
		after, err := o.Bound.Socket.Stats()
		if err != nil || after.QueueLimit != before.QueueLimit || after.QueueLimit == 0 {
			t.Errorf("%s: the backlog was %d and is %d, %v", spec, before.QueueLimit, after.QueueLimit, err)
		}
	}
}

// The descriptor stays what it was for the program: its number, its flags, whether it blocks; and its
// backlog is the configuration's.
func TestAdoptDescriptor(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	for _, flags := range []int{0, unix.SOCK_NONBLOCK, unix.SOCK_CLOEXEC, unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC} {
		offers := bound(t, "tcp://127.0.0.1:0?backlog=77")
		b := bind(t, r, offers, nil, fmt.Sprintf("socket %d %d", unix.AF_INET, flags), "bind "+address(offers[0]), "listen 5", "listen 0", "show", "bind "+address(offers[0]))
		b.expect(t, "socket <nil>", "bind <nil>", "listen <nil>", "listen <nil>",
			fmt.Sprintf("%s nonblock=%v cloexec=%v show <nil>", inode(t, offers[0].FD), flags&unix.SOCK_NONBLOCK != 0, flags&unix.SOCK_CLOEXEC != 0),
			"bind <nil>") // the kernel starts a call that a signal has interrupted again
		if st, err := offers[0].Bound.Socket.Stats(); err != nil || st.QueueLimit != 77 {
			t.Errorf("the backlog is %d, %v", st.QueueLimit, err)
		}
	}
}

// Of a socket that others have, too, the flags stay as they are, and that is said.
func TestAdoptNotAlone(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	var log lines
	offers := bound(t, "tcp://127.0.0.1:0?mode=shared")
	offers[0].Alone = false
	b := bind(t, r, offers, log.logger(), fmt.Sprintf("socket %d %d", unix.AF_INET, unix.SOCK_NONBLOCK), "bind "+address(offers[0]), "show")
	b.expect(t, "socket <nil>", "bind <nil>", inode(t, offers[0].FD)+" nonblock=false cloexec=false show <nil>")
	if !strings.Contains(log.String(), "that does not block, and gets one that blocks") {
		t.Errorf("the log has %q", log.String())
	}
}

// What is nearly the address is the program's own affair, and both the log and the error name it.
func TestAdoptOthers(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	var log lines
	offers := bound(t, "http=tcp://127.0.0.1:0?mode=shared", "dns=udp://127.0.0.1:0")
	_, port, _ := net.SplitHostPort(address(offers[0]))
	b := bind(t, r, offers, log.logger(),
		fmt.Sprintf("socket %d 0", unix.AF_INET), "bind 0.0.0.0:"+port, "bind 127.0.0.2:"+port, "listen 5", "show",
		fmt.Sprintf("socket %d 0", unix.AF_UNIX), "bind "+t.TempDir()+"/x", "wait")
	b.expect(t, "socket <nil>", "bind address already in use", "bind <nil>", "listen <nil>")
	if got := b.line(t); strings.Contains(got, inode(t, offers[0].FD)) {
		t.Errorf("it has got the socket: %s", got)
	}
	b.expect(t, "socket <nil>", "bind <nil>")
	err := b.Unbound()
	var missing *child.NotBoundError
	if !errors.As(err, &missing) || len(missing.Sockets) != 2 || !strings.Contains(err.Error(), `write listen = "tcp://0.0.0.0:`+port+`"`) || !strings.Contains(err.Error(), "dns (udp://") {
		t.Errorf("missing: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := b.Bound(ctx); !errors.Is(err, why) {
		t.Errorf("bound: %v", err)
	}
	if got := log.String(); strings.Count(got, "binds tcp://0.0.0.0:") != 1 || !strings.Contains(got, "binds tcp://127.0.0.2:") {
		t.Errorf("the log has %q", got)
	}
	fmt.Fprintln(b.stdin)
}

// The same address in another network is another one.
func TestAdoptOtherNetwork(t *testing.T) {
	t.Parallel()
	needRoot(t)
	r := newReaper(t)
	offers := bound(t, "tcp://:0")
	b := bind(t, r, offers, nil, "netns", fmt.Sprintf("socket %d 0", unix.AF_INET6), "bind "+address(offers[0]), "show")
	b.expect(t, "netns <nil>", "socket <nil>", "bind <nil>")
	if got := b.line(t); strings.Contains(got, inode(t, offers[0].FD)) || b.Unbound() == nil {
		t.Errorf("it has got the socket: %s", got)
	}
}

// A path may be relative, by way of a link, and removed before; its file is there when bind returns.
func TestAdoptPath(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	dir := t.TempDir()
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	offers := bound(t, "unix://"+dir+"/s")
	for _, path := range []string{dir + "/s", dir + "/link/s", "s", "link/s"} {
		steps := []string{"cd " + dir}
		for range 50 { // the guard of the socket puts the path back too, a little later
			steps = append(steps, fmt.Sprintf("socket %d 0", unix.AF_UNIX), "unlink "+path, "bind "+path, "chmod "+path)
		}
		b := bind(t, r, offers, nil, append(steps, "show")...)
		b.expect(t, "cd <nil>")
		for range 50 {
			b.expect(t, "socket <nil>", "unlink <nil>", "bind <nil>", "chmod <nil>")
		}
		b.expect(t, inode(t, offers[0].FD)+" nonblock=false cloexec=false show <nil>")
		if c, err := net.Dial("unix", dir+"/s"); err != nil {
			t.Error(err)
		} else {
			c.Close()
		}
	}
}

// Children get the socket too, as many as bind it, also those that bind late.
func TestAdoptWorkers(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	offers := bound(t, "tcp://127.0.0.1:0")
	steps := []string{fmt.Sprintf("socket %d 0", unix.AF_INET), "reuseport", "bind " + address(offers[0]), "show"}
	b := bind(t, r, offers, nil, append(append(steps, "fork"), steps...)...)
	for range 2 {
		b.expect(t, "socket <nil>", "reuseport <nil>", "bind <nil>", inode(t, offers[0].FD)+" nonblock=false cloexec=false show <nil>")
	}
}

// As root a service may still run programs that gain privileges; one of another user's supervisor may
// not, and adopts all the same.
func TestAdoptPrivileges(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	offers := bound(t, "tcp://127.0.0.1:0")
	c := child.Command{Path: "/bin/cat", Args: []string{"cat", "/proc/self/status"}, Offers: offers}
	want := "NoNewPrivs:\t0"
	if os.Geteuid() != 0 {
		want = "NoNewPrivs:\t1"
	} else {
		c.Credential = &child.Credential{UID: 54321, GID: 54321}
	}
	if got := run(t, r, c); !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}

// Without anybody who answers the call fails, and nothing hangs; as long as somebody has the listener it
// waits, and another one that answers may come.
func TestAdoptNobodyAnswers(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	offers := bound(t, "tcp://127.0.0.1:0")
	steps := []string{"wait", fmt.Sprintf("socket %d 0", unix.AF_INET), "bind " + address(offers[0]), "show", "bind 127.0.0.1:0", "wait"}
	b := bind(t, r, offers, nil, steps...)
	b.Process.Close()
	fmt.Fprintln(b.stdin)
	b.expect(t, "wait <nil>", "socket <nil>", "bind function not implemented")
	b.line(t)
	b.expect(t, "bind function not implemented")
	fmt.Fprintln(b.stdin)

	b = bind(t, r, offers, nil, steps...)
	listener, err := b.Listener()
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	other, err := child.Adopt(child.Adoption{Pid: b.Pid(), StartTime: b.StartTime()})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	b.Process.Close()
	fmt.Fprintln(b.stdin)
	b.expect(t, "wait <nil>", "socket <nil>")
	waitFor(t, "the call waits", func() bool { return pollable(listener) })
	if err := other.Lend(listener, offers, nil); err != nil {
		t.Fatal(err)
	}
	b.expect(t, "bind <nil>", inode(t, offers[0].FD)+" nonblock=false cloexec=false show <nil>")
	if err := other.Bound(deadline(t)); err != nil {
		t.Error(err)
	}
	fmt.Fprintln(b.stdin)
}

// pollable reports whether a call waits for an answer.
func pollable(listener *fdpass.FD) bool {
	fds := []unix.PollFd{{Fd: int32(listener.Raw()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return n > 0 && err == nil && fds[0].Revents&unix.POLLIN != 0
}

// What has ended without its sockets is an error that says which.
func TestAdoptEnds(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	b := bind(t, r, bound(t, "tcp://127.0.0.1:0"), nil, "wait")
	fmt.Fprintln(b.stdin)
	var exited *child.ExitedError
	if err := b.Bound(deadline(t)); !errors.As(err, &exited) {
		t.Errorf("%v", err)
	}
}

// Many threads and signals: each of the calls is answered once and right.
func TestAdoptStorm(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	offers := bound(t, "tcp://127.0.0.1:0")
	steps := []string{}
	for range 50 {
		steps = append(steps, fmt.Sprintf("socket %d 0", unix.AF_INET), "bind "+address(offers[0]), "socket 2 0", "bind 127.0.0.1:0")
	}
	b := bind(t, r, offers, nil, steps...)
	var storm sync.WaitGroup
	over := make(chan struct{})
	storm.Add(1)
	go func() {
		defer storm.Done()
		for {
			select {
			case <-over:
				return
			default:
				_ = b.Signal(unix.SIGURG) // which Go's runtime uses itself
			}
		}
	}()
	for range 50 {
		b.expect(t, "socket <nil>", "bind <nil>", "socket <nil>", "bind <nil>")
	}
	close(over)
	storm.Wait()
}

// lines is a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
