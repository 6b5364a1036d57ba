package carry

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair returns both ends of a connection, and the descriptor of the server's.
func pair(t *testing.T) (client, server *net.TCPConn, raw int) {
	t.Helper()
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s := accepted.(*net.TCPConn)
	t.Cleanup(func() { c.Close(); s.Close() })
	conn, err := s.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Control(func(fd uintptr) { raw = int(fd) }); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn), s, raw
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// sampled waits until a sample is as wanted.
func sampled(t *testing.T, raw int, what string, ok func(sample) bool) sample {
	t.Helper()
	var s sample
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var err error
		if s, err = takeSample(raw); err == nil && ok(s) {
			return s
		}
	}
	t.Fatalf("not seen: %s; %+v", what, s)
	return s
}

// How far a server has read, and what it has written, is known to the byte, whatever has come and gone.
func TestSample(t *testing.T) {
	t.Parallel()
	client, server, raw := pair(t)
	if s := sampled(t, raw, "a sample", func(sample) bool { return true }); s.consumed() != 0 || s.written != 0 || s.state != established {
		t.Errorf("%+v at the beginning", s)
	}
	write(t, client, "0123456789")
	base := sampled(t, raw, "ten bytes", func(s sample) bool { return s.unread == 10 })
	if base.consumed() != 0 {
		t.Errorf("%+v, and nobody has read", base)
	}
	var buf [4]byte
	if n, err := server.Read(buf[:]); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	read := sampled(t, raw, "six bytes", func(s sample) bool { return s.unread == 6 })
	if read.consumed() != 4 || !read.moved(base) {
		t.Errorf("%+v, and four bytes were read", read)
	}
	write(t, server, "1234567")
	written := sampled(t, raw, "an answer", func(s sample) bool { return s.unacked == 0 && s.written > 0 })
	if written.written != read.written+7 || !written.moved(read) || written.consumed() != 4 {
		t.Errorf("%+v, and seven bytes were written", written)
	}
	write(t, client, "x")
	more := sampled(t, raw, "one more", func(s sample) bool { return s.unread == 7 })
	if more.moved(written) {
		t.Errorf("%+v: what the client sends is no move of the server's", more)
	}
	client.CloseWrite()
	if ended := sampled(t, raw, "the end", func(s sample) bool { return s.state == closeWait }); ended.moved(written) || ended.unread != 7 {
		t.Errorf("%+v: nor is that it ends its half", ended)
	}
}

// With the mark set, what comes wakes nobody, and can be seen; with the mark back, who sleeps is woken.
func TestMark(t *testing.T) {
	t.Parallel()
	client, server, raw := pair(t)
	dup, err := unix.Dup(raw)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dup)
	if why := unsuited(dup); why != "" {
		t.Fatalf("it cannot be parked: %s", why)
	}
	if err := setMark(dup, high); err != nil {
		t.Fatal(err)
	}
	got := make(chan string)
	go func() {
		buf := make([]byte, 100)
		n, _ := server.Read(buf)
		got <- string(buf[:n])
	}()
	time.Sleep(10 * time.Millisecond) // so that it sleeps; if it does not yet, this shows nothing
	write(t, client, "GET")
	sampled(t, raw, "three bytes", func(s sample) bool { return s.unread == 3 })
	select {
	case text := <-got:
		t.Errorf("%q was read", text)
	case <-time.After(50 * time.Millisecond):
	}
	var buf [100]byte
	if b, ended := peek(dup, buf[:]); string(b) != "GET" || ended {
		t.Errorf("%q, %t", b, ended)
	}
	if err := setMark(dup, 1); err != nil {
		t.Fatal(err)
	}
	if text := <-got; text != "GET" {
		t.Errorf("%q", text)
	}
}

// What cannot be parked is seen.
func TestUnsuited(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set  func(raw int) error
		want Reason
	}{
		"a mark": {func(raw int) error { return setMark(raw, 100) }, Unsuited},
		"an offset": {func(raw int) error {
			err := unix.SetsockoptInt(raw, unix.SOL_SOCKET, unix.SO_PEEK_OFF, 0)
			return os.NewSyscallError("setsockopt", err)
		}, Unsuited},
	} {
		_, _, raw := pair(t)
		if err := c.set(raw); err != nil {
			t.Logf("%s: %v", name, err) // an older kernel does not know it, and then nobody uses it
			continue
		}
		if got := unsuited(raw); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	_, _, raw := pair(t)
	if blocks(raw) {
		t.Error("a socket of Go's blocks")
	}
	if err := syscall.SetNonblock(raw, false); err != nil {
		t.Fatal(err)
	}
	if !blocks(raw) {
		t.Error("one that blocks does not")
	}
}

// A reader with a blocking call sleeps on with what it has if the mark is high, and comes back with it when it is woken.
func TestWake(t *testing.T) {
	t.Parallel()
	client, _, raw := pair(t)
	if err := syscall.SetNonblock(raw, false); err != nil {
		t.Fatal(err)
	}
	if err := setMark(raw, high); err != nil {
		t.Fatal(err)
	}
	got := make(chan string)
	go func() {
		var buf [100]byte
		n, _ := unix.Read(raw, buf[:])
		got <- string(buf[:max(n, 0)])
	}()
	if _, err := client.Write([]byte("GET")); err != nil {
		t.Fatal(err)
	}
	for s, err := takeSample(raw); err != nil || s.consumed() < 3; s, err = takeSample(raw) {
		time.Sleep(time.Millisecond)
	}
	select {
	case text := <-got:
		t.Fatalf("it came back by itself, with %q", text)
	default:
	}
	wake(raw)
	if text := <-got; text != "GET" {
		t.Errorf("it came back with %q", text)
	}
}
