package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A manager is the receiving end of NOTIFY_SOCKET, without any of this
// package's code.
type manager struct {
	*net.UnixConn
	t testing.TB
}

func startManager(t testing.TB, address string) manager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return manager{conn, t}
}

// read returns the next datagram.
func (m manager) read() string {
	m.t.Helper()
	m.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 1<<16)
	n, err := m.Read(buf)
	if err != nil {
		m.t.Fatalf("no datagram came: %v", err)
	}
	return string(buf[:n])
}

func newNotifier(t testing.TB, address string) *Notifier {
	t.Helper()
	n, err := NewNotifier(address)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNotifierSends(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	m := startManager(t, path)
	n := newNotifier(t, path)
	for name, tt := range map[string]struct {
		send func() error
		want string
	}{
		"ready":             {func() error { return n.Ready("serving") }, "READY=1\nSTATUS=serving"},
		"ready no status":   {func() error { return n.Ready("") }, "READY=1"},
		"stopping":          {func() error { return n.Stopping("bye") }, "STOPPING=1\nSTATUS=bye"},
		"status":            {func() error { return n.Status("a=b") }, "STATUS=a=b"},
		"several lines":     {func() error { return n.Status("one\ntwo\r\n\tthree\x00\n") }, "STATUS=one two   three"},
		"not UTF-8":         {func() error { return n.Status("a\xffb") }, "STATUS=a\uFFFDb"},
		"extend":            {func() error { return n.ExtendTimeout(90 * time.Second) }, "EXTEND_TIMEOUT_USEC=90000000"},
		"extend rounded up": {func() error { return n.ExtendTimeout(1) }, "EXTEND_TIMEOUT_USEC=1"},
		"watchdog":          {n.Watchdog, "WATCHDOG=1"},
		"main pid":          {func() error { return n.MainPID(42) }, "MAINPID=42"},
		"general":           {func() error { return n.Notify("MAINPID=42", "READY=1", "STATUS=x\ny") }, "MAINPID=42\nREADY=1\nSTATUS=x y"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tt.send(); err != nil {
				t.Fatal(err)
			}
			if got := m.read(); got != tt.want {
				t.Errorf("sent %q, want %q", got, tt.want)
			}
		})
	}
}

// The time has to come in the same datagram, and from CLOCK_MONOTONIC.
func TestReloadingCarriesTime(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	m := startManager(t, path)
	before := monotonic(t)
	if err := newNotifier(t, path).Reloading("reading it again"); err != nil {
		t.Fatal(err)
	}
	after := monotonic(t)
	var usec int64
	lines := strings.Split(m.read(), "\n")
	if len(lines) != 3 || lines[0] != "RELOADING=1" || lines[2] != "STATUS=reading it again" {
		t.Fatalf("sent %q", lines)
	}
	if _, err := fmt.Sscanf(lines[1], "MONOTONIC_USEC=%d", &usec); err != nil {
		t.Fatalf("sent %q: %v", lines, err)
	}
	if usec < before || usec > after {
		t.Errorf("time is %d, want from %d to %d", usec, before, after)
	}
}

func monotonic(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano() / 1000
}

func TestNotifierWithoutManager(t *testing.T) {
	t.Parallel()
	n, err := NewNotifier("")
	if n != nil || err != nil {
		t.Fatalf("NewNotifier(\"\") = %v, %v, want nil, nil", n, err)
	}
	for _, err := range []error{
		n.Ready("a"), n.Reloading("a"), n.Stopping("a"), n.Status("a"), n.ExtendTimeout(1),
		n.Watchdog(), n.MainPID(1), n.Notify("A=b"),
	} {
		if err != nil {
			t.Errorf("a nil Notifier returned %v", err)
		}
	}
}

func TestNotifierNothingToSay(t *testing.T) {
	t.Parallel()
	n := newNotifier(t, "/nobody/is/here")
	for _, err := range []error{n.Status(""), n.ExtendTimeout(0), n.ExtendTimeout(-1), n.Notify()} {
		if err != nil {
			t.Errorf("tried to send: %v", err)
		}
	}
}

func TestNotifierAbstractAddress(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"@systemd-test-", "@systemd-test-" + strings.Repeat("x", 70)} {
		address := name + strconv.Itoa(os.Getpid())
		m := startManager(t, address)
		if err := newNotifier(t, address).Watchdog(); err != nil {
			t.Fatal(err)
		}
		if got := m.read(); got != "WATCHDOG=1" {
			t.Errorf("sent %q", got)
		}
	}
}

func TestNotifierAddressErrors(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"vsock:2:1234", "vsock-stream:2:1234", "relative/path", "@", "tcp://1.2.3.4:5",
		"/" + strings.Repeat("x", 107), "@" + strings.Repeat("x", 108),
	} {
		n, err := NewNotifier(address)
		if !errors.Is(err, ErrAddress) || n != nil {
			t.Errorf("NewNotifier(%q) = %v, %v, want an error that is ErrAddress", address, n, err)
		}
	}
}

func TestNotifierFieldErrors(t *testing.T) {
	t.Parallel()
	n := newNotifier(t, "/nobody/is/here")
	for _, fields := range [][]string{
		{"READY"}, {"=1"}, {""}, {"READY=1\nSTOPPING=1"}, {"FDNAME=a\x00b"},
		{"X_LONG=" + strings.Repeat("x", maxDatagram)},
		{"X_A=" + strings.Repeat("x", maxDatagram-5), "X_B=", "STATUS=no room is left"},
		{"STATUS=one", "STATUS=two\nthree"},
	} {
		if err := n.Notify(fields...); !errors.Is(err, ErrField) {
			t.Errorf("Notify(%.40q): %v, want ErrField", fields, err)
		}
	}
}

func TestLongStatusIsCut(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	m := startManager(t, path)
	n := newNotifier(t, path)
	for shift := range 4 { // so that the cut comes at each byte of a character
		text := strings.Repeat("x", shift) + strings.Repeat("€", maxDatagram)
		if err := n.Ready(text); err != nil {
			t.Fatal(err)
		}
		got := m.read()
		if len(got) > maxDatagram || len(got) < maxDatagram-utf8.UTFMax {
			t.Errorf("sent %d bytes, want about %d", len(got), maxDatagram)
		}
		if !utf8.ValidString(got) || !strings.HasPrefix(got, "READY=1\nSTATUS="+text[:100]) || !strings.HasSuffix(got, "€…") {
			t.Errorf("sent %.20q and so on to %q", got, got[len(got)-20:])
		}
	}
	// Text that fits to the byte is not touched.
	exact := strings.Repeat("x", maxDatagram-len("STATUS="))
	if err := n.Status(exact); err != nil {
		t.Fatal(err)
	}
	if got := m.read(); got != "STATUS="+exact {
		t.Errorf("sent %d bytes, want %d", len(got), maxDatagram)
	}
}

// A manager that does not read must not hold up this process for ever, and one
// that reads late must lose nothing.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	m := startManager(t, path)
	n := newNotifier(t, path)
	n.timeout = 50 * time.Millisecond
	sent := 0
	var err error
	for ; err == nil && sent < 1e6; sent++ {
		err = n.Watchdog()
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("after %d messages: %v, want os.ErrDeadlineExceeded", sent, err)
	}

	n.timeout = time.Minute
	done := make(chan error, 1)
	go func() { done <- n.Ready("") }()
	for m.read() != "READY=1" {
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A manager that executes itself anew binds its socket again.
func TestManagerComesBack(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	first := startManager(t, path)
	n := newNotifier(t, path)
	if err := n.Watchdog(); err != nil {
		t.Fatal(err)
	}
	first.Close()
	if err := n.Watchdog(); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("without a manager: %v, want ECONNREFUSED", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := n.Watchdog(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a socket: %v, want os.ErrNotExist", err)
	}
	second := startManager(t, path)
	if err := n.Ready(""); err != nil {
		t.Fatal(err)
	}
	if got := second.read(); got != "READY=1" {
		t.Errorf("sent %q", got)
	}
}

func TestNotifierConcurrently(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	m := startManager(t, path)
	n := newNotifier(t, path)
	const senders, each = 8, 50
	var all sync.WaitGroup
	for i := range senders {
		all.Add(1)
		go func() {
			defer all.Done()
			for j := range each {
				if err := n.Status(fmt.Sprintf("%d %d", i, j)); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	next := make(map[int]int)
	for range senders * each {
		var i, j int
		if _, err := fmt.Sscanf(m.read(), "STATUS=%d %d", &i, &j); err != nil || j != next[i] {
			t.Fatalf("got %d of sender %d, want %d (%v)", j, i, next[i], err)
		}
		next[i]++
	}
	all.Wait()
}
