package systemd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func listen(t testing.TB, path string) *Receiver {
	t.Helper()
	r, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// dial returns a socket that sends to path as any process would.
func dial(t testing.TB, path string) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Net: "unixgram", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetWriteBuffer(1 << 20); err != nil { // for the largest datagrams
		t.Fatal(err)
	}
	return conn
}

// send sends text and files in one datagram.
func send(t testing.TB, conn *net.UnixConn, text string, files ...*os.File) {
	t.Helper()
	var fds []int
	for _, file := range files {
		fds = append(fds, int(file.Fd()))
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
	if err := sendmsg(conn, text, oob); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(files)
}

// sendmsg is what WriteMsgUnix does not do for a connected datagram socket.
func sendmsg(conn *net.UnixConn, text string, oob []byte) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), []byte(text), oob, nil, 0)
		return !errors.Is(sent, unix.EAGAIN)
	})
	return errors.Join(err, sent)
}

func receive(t testing.TB, r *Receiver) Message {
	t.Helper()
	m, err := r.Receive()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// hungUp waits up to wait for the other end of the pipe to be closed by all who
// have it.
func hungUp(t testing.TB, r *os.File, wait time.Duration) bool {
	t.Helper()
	r.SetReadDeadline(time.Now().Add(wait))
	_, err := r.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func TestReceiveTellsTheSender(t *testing.T) {
	t.Parallel()
	r := listen(t, socketPath(t))
	send(t, dial(t, r.Path()), "READY=1\nSTATUS=hello")
	want := Message{
		Notification: Notification{Ready: true, Status: "hello", HasStatus: true},
		Sender:       Sender{PID: os.Getpid(), UID: uint32(os.Getuid()), GID: uint32(os.Getgid())},
	}
	if got := receive(t, r); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := r.Dropped(); got != (Dropped{}) {
		t.Errorf("dropped %+v", got)
	}
}

// notifyHelper is another process that notifies.
func notifyHelper() error {
	n, err := NewNotifier(os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return err
	}
	fmt.Print(os.Getpid())
	return n.Ready("")
}

func TestReceiveFromOtherProcess(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	r, err := Listen(path, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := os.Chmod(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := helperCommand(t, "notify", "NOTIFY_SOCKET="+path)
	want := Sender{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	if os.Getuid() == 0 { // only root can be somebody else
		want.UID, want.GID = 65534, 65533
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: want.UID, Gid: want.GID}}
		cmd.Path = readableByAll(t, cmd.Path)
	}
	pid := run(t, cmd)
	want.PID, err = strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if got := receive(t, r).Sender; got != want { // it has ended by now
		t.Errorf("sender %+v, want %+v", got, want)
	}
}

// readableByAll copies a program to where every user can execute it.
func readableByAll(t testing.TB, program string) string {
	t.Helper()
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	public := filepath.Join(dir, "helper")
	// Not by this process: one that another test forks just then would have it open for writing, and it could not be executed.
	if out, err := exec.Command("cp", program, public).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return public
}

func TestReceiveDrops(t *testing.T) {
	t.Parallel()
	r := listen(t, socketPath(t))
	conn := dial(t, r.Path())
	_, w := pipe(t)
	longest := "STATUS=" + strings.Repeat("x", maxDatagram-len("STATUS="))
	for name, tt := range map[string]struct {
		text  string
		files []*os.File
		want  Dropped
	}{
		"longest":             {text: longest},
		"one too long":        {text: longest + "x", want: Dropped{Oversized: 1}},
		"64 KiB":              {text: strings.Repeat("READY=1\n", 8192), want: Dropped{Oversized: 1}},
		"too long, with fd":   {text: longest + "x", files: []*os.File{w}, want: Dropped{Oversized: 1}},
		"NUL":                 {text: "READY=1\x00STATUS=x", want: Dropped{Malformed: 1}},
		"empty":               {text: "", want: Dropped{Malformed: 1}},
		"empty, with fd":      {text: "", files: []*os.File{w}, want: Dropped{Malformed: 1}},
		"barrier without fd":  {text: "BARRIER=1", want: Dropped{Malformed: 1}},
		"barrier with two":    {text: "BARRIER=1", files: []*os.File{w, w}, want: Dropped{Malformed: 1}},
		"barrier and more":    {text: "BARRIER=1\nREADY=1", files: []*os.File{w}, want: Dropped{Malformed: 1}},
		"as many fds as can":  {text: "READY=1", files: many(w, maxDescriptors)},
		"barrier with no end": {text: "BARRIER=1", files: many(w, maxDescriptors), want: Dropped{Malformed: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			before := r.Dropped()
			send(t, conn, tt.text, tt.files...)
			send(t, conn, "STATUS=after")
			m := receive(t, r)
			if dropped := tt.want != (Dropped{}); dropped != (m.Status == "after") {
				t.Errorf("received %+v", m.Notification)
			} else if !dropped {
				receive(t, r)
			}
			got := r.Dropped()
			got.Oversized -= before.Oversized
			got.Malformed -= before.Malformed
			got.Anonymous -= before.Anonymous
			if got != tt.want {
				t.Errorf("dropped %+v, want %+v", got, tt.want)
			}
		})
	}
}

func many(file *os.File, n int) []*os.File {
	files := make([]*os.File, n)
	for i := range files {
		files[i] = file
	}
	return files
}

// The kernel tells no process id of a sender outside the receiver's pid
// namespace.
func TestReceiveDropsAnonymous(t *testing.T) {
	t.Parallel()
	r := &Receiver{}
	if m, ok := r.message([]byte("READY=1"), 0, Sender{}, nil); ok {
		t.Errorf("took %+v", m)
	}
	if got := r.Dropped(); got != (Dropped{Anonymous: 1}) {
		t.Errorf("dropped %+v", got)
	}
}

func TestReceiveClosesDescriptors(t *testing.T) {
	t.Parallel()
	r := listen(t, socketPath(t))
	conn := dial(t, r.Path())
	for _, text := range []string{"READY=1", "FDSTORE=1\nFDNAME=x", "", strings.Repeat("x", 5000), "BARRIER=1\nREADY=1"} {
		end, w := pipe(t)
		send(t, conn, text, w, w)
		send(t, conn, "STATUS=after")
		w.Close()
		for receive(t, r).Status != "after" {
		}
		if !hungUp(t, end, 10*time.Second) {
			t.Errorf("a descriptor that came with %.20q is still open", text)
		}
	}
}

func TestBarrier(t *testing.T) {
	t.Parallel()
	r := listen(t, socketPath(t))
	conn := dial(t, r.Path())
	end, w := pipe(t)
	send(t, conn, "STATUS=before")
	send(t, conn, "BARRIER=1", w)
	w.Close()
	if m := receive(t, r); m.Status != "before" || m.BarrierFD != nil {
		t.Errorf("first message is %+v", m)
	}
	m := receive(t, r)
	if !m.Barrier || m.BarrierFD == nil {
		t.Fatalf("second message is %+v", m)
	}
	flags, err := unix.FcntlInt(uintptr(m.BarrierFD.Raw()), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("not close-on-exec: %#x, %v", flags, err)
	}
	if hungUp(t, end, 20*time.Millisecond) {
		t.Error("the barrier fell before it was closed")
	}
	if err := m.BarrierFD.Close(); err != nil {
		t.Error(err)
	}
	if !hungUp(t, end, 10*time.Second) {
		t.Error("the barrier still stands")
	}
}

// A message that nobody reads must not keep its sender waiting once the socket
// is gone.
func TestCloseFreesBarriers(t *testing.T) {
	t.Parallel()
	r := listen(t, socketPath(t))
	end, w := pipe(t)
	send(t, dial(t, r.Path()), "BARRIER=1", w)
	w.Close()
	r.Close()
	if !hungUp(t, end, 10*time.Second) {
		t.Error("the barrier still stands")
	}
}

// fewDescriptorsHelper receives descriptors for which this process has no room.
func fewDescriptorsHelper() error {
	r, err := Listen(os.Getenv("NOTIFY_SOCKET"), 0o600)
	if err != nil {
		return err
	}
	defer r.Close()
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Net: "unixgram", Name: r.Path()})
	if err != nil {
		return err
	}
	defer conn.Close()
	end, w, err := os.Pipe()
	if err != nil {
		return err
	}
	for _, text := range []string{"READY=1", "BARRIER=1", "STATUS=after"} {
		if err := sendmsg(conn, text, unix.UnixRights(int(w.Fd()), int(w.Fd()))); err != nil {
			return err
		}
	}
	w.Close()
	// Only now, since a sender may not have more under way than its own limit.
	free, err := unix.Dup(0) // the lowest number that is free
	if err != nil {
		return err
	}
	unix.Close(free)
	limit := uint64(free) + 1 // so there is room for one of two
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	m, err := r.Receive()
	if err != nil || !m.Ready {
		return fmt.Errorf("first received %+v, %v", m, err)
	}
	m, err = r.Receive()
	if err != nil || m.Status != "after" || r.Dropped() != (Dropped{Malformed: 1}) {
		return fmt.Errorf("then received %+v, %v, dropped %+v", m, err, r.Dropped())
	}
	if err := end.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := end.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("a descriptor was leaked: %w", err)
	}
	return nil
}

func TestReceiveWithoutRoomForDescriptors(t *testing.T) {
	t.Parallel()
	run(t, helperCommand(t, "few-fds", "NOTIFY_SOCKET="+socketPath(t)))
}

func TestCloseEndsReceive(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	r := listen(t, path)
	done := make(chan error, 1)
	received := make(chan struct{})
	go func() {
		r.Receive()
		close(received)
		_, err := r.Receive()
		done <- err
	}()
	send(t, dial(t, path), "READY=1")
	<-received
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Receive: %v, want net.ErrClosed", err)
	}
	if _, err := r.Receive(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Receive after Close: %v, want net.ErrClosed", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket's file is still there: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// A socket that everybody may write to must not let everybody have the memory.
// Not parallel, since it measures the heap.
func TestFlood(t *testing.T) {
	r := listen(t, socketPath(t))
	conn := dial(t, r.Path())
	const floods = 100_000
	done := make(chan struct{})
	go func() {
		defer close(done)
		garbage := []byte(strings.Repeat("\x00", 4000))
		oversized := []byte(strings.Repeat("READY=1\n", 1000))
		for i := range floods {
			text := garbage
			if i%100 == 0 {
				text = oversized
			}
			if _, err := conn.Write(text); err != nil {
				t.Error(err)
				return
			}
		}
		if _, err := conn.Write([]byte("STATUS=after")); err != nil {
			t.Error(err)
		}
	}()
	before := heap()
	m := receive(t, r)
	<-done
	if m.Status != "after" {
		t.Errorf("received %+v", m)
	}
	if got, want := r.Dropped(), (Dropped{Oversized: floods / 100, Malformed: floods - floods/100}); got != want {
		t.Errorf("dropped %+v, want %+v", got, want)
	}
	if grown := int64(heap()) - int64(before); grown > 1<<20 { // a four-hundredth of the flood
		t.Errorf("the heap has grown by %d bytes", grown)
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func BenchmarkReceive(b *testing.B) {
	r := listen(b, socketPath(b))
	conn := dial(b, r.Path())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range b.N {
			conn.Write([]byte("READY=1\nSTATUS=serving"))
		}
	}()
	b.ReportAllocs()
	for b.Loop() {
		receive(b, r)
	}
	<-done
}
