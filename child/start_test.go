package child_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// listener is a listening TCP socket, not blocking as Go makes them.
func listener(t testing.TB) *fdpass.FD {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var fd *fdpass.FD
	conn.Control(func(raw uintptr) {
		var dup int
		dup, err = unix.FcntlInt(raw, unix.F_DUPFD_CLOEXEC, 3)
		fd = fdpass.NewFD(dup)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fd.Close() })
	return fd
}

// inode tells one socket from another.
func inode(t testing.TB, fd *fdpass.FD) string {
	t.Helper()
	link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd.Raw()))
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func TestSockets(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	a, b, extra := listener(t), listener(t), listener(t)
	show := `echo $$; echo $LISTEN_PID; echo $LISTEN_FDS; echo $LISTEN_FDNAMES; for n in 3 4 5 6; do readlink /proc/$$/fd/$n || echo none; done`
	for name, args := range map[string][]string{
		"the program itself": {"/bin/sh", "-c", show},
		"exec in a shell":    {"/bin/sh", "-c", `exec /bin/sh -c "$0"`, show},
		"env":                {"/usr/bin/env", "X=1", "/bin/sh", "-c", show},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Split(run(t, r, child.Command{
				Path:    args[0],
				Args:    args,
				Env:     []string{"LISTEN_PID=1", "LISTEN_PIDFDID=2", "LISTEN_FDS=3", "LISTEN_FDNAMES=x", "PATH=/usr/bin:/bin"},
				Sockets: []child.NamedFD{{Name: "http", FD: a}, {FD: b}},
				Extra:   []*fdpass.FD{extra},
			}), "\n")
			want := []string{got[0], got[0], "2", "http:unknown", inode(t, a), inode(t, b), inode(t, extra), "none", ""}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestNoSocketsNoVariables(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	env := []string{"A=1", "LISTEN_PID=1", "NOTIFY_SOCKET=/of/systemd", "LISTEN_FDS=1", "EMPTY=", "odd", "A=2"}
	got := run(t, r, child.Command{Path: "/bin/cat", Args: []string{"cat", "/proc/self/environ"}, Env: env})
	if want := "A=1\x00EMPTY=\x00odd\x00A=2\x00"; got != want {
		t.Errorf("the environment is %q, want %q", got, want)
	}
	got = run(t, r, child.Command{Path: "/bin/cat", Args: []string{"cat", "/proc/self/environ"}, Env: env, Notify: "/of/us"})
	if want := "NOTIFY_SOCKET=/of/us\x00A=1\x00EMPTY=\x00odd\x00A=2\x00"; got != want {
		t.Errorf("the environment is %q, want %q", got, want)
	}
}

// What is open in the parent stays there, whoever has opened it and however.
func TestNoDescriptorLeaks(t *testing.T) {
	if alone(t) {
		testNoDescriptorLeaks(t)
	}
}

func testNoDescriptorLeaks(t *testing.T) {
	r := newReaper(t)
	null, err := unix.Open("/dev/null", unix.O_RDWR, 0) // without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	opened := []int{null}
	for _, at := range []int{20, 21, 90, 900} {
		if err := unix.Dup2(null, at); err != nil {
			t.Fatal(err)
		}
		opened = append(opened, at)
	}
	for range 50 {
		fd, err := unix.Dup(null)
		if err != nil {
			t.Fatal(err)
		}
		opened = append(opened, fd)
	}
	got := strings.Fields(run(t, r, child.Command{
		Path:    "/bin/ls",
		Args:    []string{"ls", "/proc/self/fd"},
		Sockets: []child.NamedFD{{FD: listener(t)}},
		Extra:   []*fdpass.FD{listener(t)},
	}))
	slices.Sort(got)
	// 5 is the directory that ls reads.
	if want := []string{"0", "1", "2", "3", "4", "5"}; !slices.Equal(got, want) {
		t.Errorf("open in the child: %q, want %q", got, want)
	}
	for _, fd := range opened {
		unix.Close(fd)
	}
}

func TestStandardDescriptors(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	out := newOutput(t)
	c := sh("(readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2) >&3; exit 0")
	c.Extra = []*fdpass.FD{out.write}
	if exit, err := r.Run(t.Context(), c); err != nil || !exit.Success() {
		t.Fatal(err, exit)
	}
	var own [3]string
	for i := range own {
		own[i], _ = os.Readlink("/proc/self/fd/" + strconv.Itoa(i))
	}
	if got, want := out.all(), fmt.Sprintf("/dev/null\n%s\n%s\n", own[1], own[2]); got != want {
		t.Errorf("0, 1 and 2 are %q, want %q", got, want)
	}
}

// The flags of an open file are shared by everybody who has it, so a start that
// changed them would make the next accept of another process block.
func TestFlagsOfSocketsStay(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	fd := listener(t)
	flags := func() int {
		n, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_GETFL, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := flags()
	if before&unix.O_NONBLOCK == 0 {
		t.Fatal("the socket blocks from the start, which shows nothing")
	}
	c := sh("exit 0")
	c.Sockets = []child.NamedFD{{Name: "a", FD: fd}}
	run(t, r, c)
	if after := flags(); after != before {
		t.Errorf("flags %#x became %#x", before, after)
	}
}

func TestClosedSocket(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	c := sh("exit 0")
	c.Sockets = []child.NamedFD{{Name: "gone", FD: fdpass.NewFD(-1)}}
	if _, err := r.Start(t.Context(), c); err == nil || !strings.Contains(err.Error(), `socket "gone"`) {
		t.Errorf("got %v", err)
	}
}

// field is the value of a line "Name: value".
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Ignored and blocked signals of the parent would be kept by exec.
func TestSignalsAreReset(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	out := run(t, r, helper("spoil-signals"))
	ofChild, ofParent, ok := strings.Cut(out, "---\n")
	if !ok {
		t.Fatalf("got %q", out)
	}
	const none = "0000000000000000"
	for _, name := range []string{"SigBlk", "SigIgn", "SigCgt"} {
		if got := field(ofChild, name); got != none {
			t.Errorf("%s of the child is %s", name, got)
		}
	}
	if field(ofParent, "SigIgn") == none || field(ofParent, "SigBlk") == none {
		t.Errorf("the parent ignores and blocks nothing, which shows nothing:\n%s", ofParent)
	}
}

func TestSurroundings(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	umask := uint32(0o027)
	c := sh(`pwd; umask; ulimit -Sn; ulimit -Hn; ulimit -Sc; cut -d" " -f1,5,6 /proc/$$/stat`)
	c.Dir = dir
	c.Umask = &umask
	c.Limits = []child.Limit{{Resource: unix.RLIMIT_NOFILE, Cur: 77, Max: 88}, {Resource: unix.RLIMIT_CORE, Cur: 0, Max: 0}}
	got := strings.Split(run(t, r, c), "\n")
	if want := []string{dir, "0027", "77", "88", "0"}; !slices.Equal(got[:5], want) {
		t.Errorf("got %q, want %q", got[:5], want)
	}
	if ids := strings.Fields(got[5]); len(ids) != 3 || ids[0] != ids[1] || ids[0] != ids[2] {
		t.Errorf("pid, process group and session are %q, want one and the same", ids)
	}
}

// Go raises its own limit of open files when it starts. Services get what the
// supervisor was started with, since select(2) and others trip over a high one.
func TestOriginalFileLimit(t *testing.T) {
	if !alone(t) {
		return
	}
	r := newReaper(t)
	// A shell lowers it for a process that is a supervisor in its turn.
	c := sh(`ulimit -Sn 123 && exec "$0"`)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.Args = append(c.Args, self)
	c.Env = append(c.Env, helperVar+"=limit-of-child")
	if got := strings.TrimSpace(run(t, r, c)); !strings.HasPrefix(got, "own ") || !strings.HasSuffix(got, "\n123") || got == "own 123\n123" {
		t.Errorf("got %q, want the child to have 123 and its parent more", got)
	}
}

func TestOneself(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	p := start(t, r, sh("exec sleep 1000"))
	if got, want := p.Exit(), (child.Exit{}); got != want {
		t.Errorf("exit of a running process: %v", got)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.Pid()))
	if err != nil || string(b) != "sleep\n" && string(b) != "sh\n" {
		t.Errorf("process %d is %q (%v)", p.Pid(), b, err)
	}
}
