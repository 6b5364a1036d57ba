package fdpass

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// helperVariable makes the test binary run one of the helpers instead of the
// tests.
const helperVariable = "FDPASS_TEST_HELPER"

// deadline bounds every wait for something that has to happen.
const deadline = 30 * time.Second

func TestMain(m *testing.M) {
	if name := os.Getenv(helperVariable); name != "" {
		helper, ok := helpers()[name]
		if !ok {
			fmt.Fprintln(os.Stderr, "no helper", name)
			os.Exit(2)
		}
		helper(os.Args[1:])
		os.Exit(0)
	}
	flag.Parse()
	// The runtime opens its poller once, and /dev/null stays open in os/exec.
	warmUp()
	before := openDescriptors()
	code := m.Run()
	leaked := newDescriptors(before, openDescriptors())
	// The pipes of splice(2), which io.Copy uses, are kept by the runtime until it collects them.
	for end := time.Now().Add(deadline); len(leaked) > 0 && time.Now().Before(end); leaked = newDescriptors(before, openDescriptors()) {
		runtime.GC()
	}
	if len(leaked) > 0 && !fuzzing() {
		fmt.Fprintf(os.Stderr, "FAIL: descriptors leaked by the tests: %v\n", leaked)
		code = 1
	}
	os.Exit(code)
}

// fuzzing reports whether the fuzzing engine has descriptors of its own.
func fuzzing() bool {
	for _, name := range []string{"test.fuzz", "test.fuzzworker"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != f.DefValue {
			return true
		}
	}
	return false
}

func warmUp() {
	r, w, err := os.Pipe()
	if err == nil {
		r.SetDeadline(time.Now())
		r.Close()
		w.Close()
	}
}

// openDescriptors returns what is open, by number.
func openDescriptors() map[string]string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	open := make(map[string]string)
	for _, e := range entries {
		// The one of the directory itself is closed by now.
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			open[e.Name()] = target
		}
	}
	return open
}

func newDescriptors(before, after map[string]string) map[string]string {
	leaked := maps.Clone(after)
	maps.DeleteFunc(leaked, func(number, target string) bool { return before[number] == target })
	return leaked
}

// TestLeakCheck shows that the check of TestMain sees a descriptor. It is not
// parallel, so that no other test opens one meanwhile.
func TestLeakCheck(t *testing.T) {
	before := openDescriptors()
	raw, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := NewFD(raw)
	if leaked := newDescriptors(before, openDescriptors()); len(leaked) != 1 {
		t.Errorf("with one socket opened the check finds %v", leaked)
	}
	if err := fd.Close(); err != nil {
		t.Error(err)
	}
	if leaked := newDescriptors(before, openDescriptors()); len(leaked) != 0 {
		t.Errorf("with nothing opened the check finds %v", leaked)
	}
}

// runHelper runs this test binary, as the helper of that name unless it is empty,
// and as uid 65534 with no privilege if unprivileged. It returns what was
// printed.
//
// A test that uses it cannot be parallel, which Setenv sees to: between fork and
// exec the child has every descriptor that other tests take for closed.
func runHelper(t *testing.T, unprivileged bool, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 6*deadline)
	defer cancel()
	// The other user may not go through the directory of the binary.
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	t.Setenv(helperVariable, name)
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	cmd.Dir = "/"
	if unprivileged && os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helper %q: %v, output:\n%s", name, err, out)
	}
	return strings.TrimSpace(string(out))
}

// mustOpen opens one spec and closes it at the end of the test.
func mustOpen(t *testing.T, text string) Socket {
	t.Helper()
	all := mustOpenAll(t, OpenOptions{}, text)
	return all[0].Socket
}

func mustOpenAll(t *testing.T, o OpenOptions, texts ...string) []Bound {
	t.Helper()
	all, _, err := Open(mustParseAll(t, texts...), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		t.Cleanup(func() { b.Socket.Close() })
	}
	return all
}

func mustParseAll(t *testing.T, texts ...string) []Spec {
	t.Helper()
	var specs []Spec
	for _, text := range texts {
		specs = append(specs, mustParse(t, text))
	}
	return specs
}

// openErr opens one spec and returns its OpenError.
func openErr(t *testing.T, o OpenOptions, texts ...string) *OpenError {
	t.Helper()
	all, fresh, err := Open(mustParseAll(t, texts...), o)
	var oe *OpenError
	if !errors.As(err, &oe) {
		for _, b := range fresh {
			b.Socket.Close()
		}
		t.Fatalf("Open(%q) = %v, %v; want an OpenError", texts, all, err)
	}
	if len(all)+len(fresh) != 0 {
		t.Errorf("Open(%q) returns sockets with its error", texts)
	}
	return oe
}

// join returns a generation's descriptor, closed at the end of the test.
func join(t *testing.T, s Socket) *FD {
	t.Helper()
	fd, err := s.Join(1, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fd.Close() })
	return fd
}

// dialText connects to what Addr returned.
func dialText(t *testing.T, addr string) net.Conn {
	t.Helper()
	s := mustParse(t, addr)
	c, err := net.DialTimeout(s.Network, s.Address, deadline)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// accept takes the next connection of a listening socket, which is borrowed.
func accept(t *testing.T, fd *FD) net.Conn {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(fd.Raw()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(deadline.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n != 1 {
			t.Fatalf("no connection: %v", err)
		}
		break
	}
	raw, _, err := unix.Accept4(fd.Raw(), unix.SOCK_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(raw), "accepted")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// echo sends text one way and the other over both ends of a connection.
func echo(t *testing.T, client, server net.Conn, text string) {
	t.Helper()
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		way[0].SetDeadline(time.Now().Add(deadline))
		way[1].SetDeadline(time.Now().Add(deadline))
		sent := make(chan error, 1)
		go func() {
			_, err := way[0].Write([]byte(text))
			sent <- err
		}()
		got := make([]byte, 0, len(text))
		for len(got) < len(text) {
			buf := make([]byte, 64<<10)
			n, err := way[1].Read(buf)
			if err != nil {
				t.Fatalf("after %d bytes: %v", len(got), err)
			}
			got = append(got, buf[:n]...)
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if string(got) != text {
			t.Fatalf("%d bytes arrived, not the %d that were sent", len(got), len(text))
		}
	}
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never happened that %s", what)
		}
	}
}

func sockoptInt(t *testing.T, fd *FD, level, opt int) int {
	t.Helper()
	n, err := unix.GetsockoptInt(fd.Raw(), level, opt)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// abstract returns an abstract name that nobody else uses.
func abstract(t *testing.T) string {
	return fmt.Sprintf("@fdpass-test-%d-%d", os.Getpid(), abstractCount.Add(1))
}

var abstractCount atomic.Int64

// shortDir returns a new directory whose paths fit into a socket's address.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fdp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// sockPath returns a path for a socket in a new directory.
func sockPath(t *testing.T) string {
	return filepath.Join(shortDir(t), "s")
}

// A logBuffer is where a test's logger writes.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
