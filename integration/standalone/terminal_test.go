package standalone

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// An onTerminal is a command that runs on a terminal of its own.
type onTerminal struct {
	t     *testing.T
	cmd   *exec.Cmd
	shown *buffer
	ended chan error
}

// onTerminalOf runs a command on a terminal of so many columns.
func onTerminalOf(t *testing.T, columns int, args ...string) *onTerminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	var number int
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err != nil {
			return
		}
		if err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)}); err != nil {
			return
		}
		number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
	})
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	o := &onTerminal{t: t, cmd: exec.Command(program, args...), shown: &buffer{}, ended: make(chan error, 1)}
	o.cmd.Stdin, o.cmd.Stdout, o.cmd.Stderr = slave, slave, slave
	o.cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		io.Copy(o.shown, master) // until nobody has the other end
	}()
	go func() {
		err := o.cmd.Wait()
		<-read
		o.ended <- err
	}()
	t.Cleanup(func() {
		o.cmd.Process.Kill()
		<-read
		if t.Failed() {
			t.Logf("the terminal of %q has shown %q", args, o.shown)
		}
	})
	return o
}

// until waits until the terminal has shown something.
func (o *onTerminal) until(text string) {
	o.t.Helper()
	for end := time.Now().Add(20 * time.Second); !strings.Contains(o.shown.String(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			o.t.Fatalf("%q was not shown, but %q", text, o.shown)
		}
	}
}

// interrupt presses Ctrl-C, and waits until the command has ended.
func (o *onTerminal) interrupt() unix.WaitStatus {
	o.t.Helper()
	if err := o.cmd.Process.Signal(unix.SIGINT); err != nil {
		o.t.Fatal(err)
	}
	return o.wait()
}

func (o *onTerminal) wait() unix.WaitStatus {
	o.t.Helper()
	select {
	case <-o.ended:
	case <-time.After(20 * time.Second):
		o.t.Fatal("it does not end")
	}
	return unix.WaitStatus(o.cmd.ProcessState.Sys().(syscall.WaitStatus))
}

// On a terminal a reload shows the step that runs, its time and what it waits for. Ctrl-C ends the command and not the handoff, which it
// says, with how to end that.
func TestReloadOnTerminal(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	tested("v1", "-never-ready").write(t, s.dir)
	o := onTerminalOf(t, 100, "reload", "--control", s.control())
	o.until("start    ok")
	o.until("ready    1")
	o.until("waits for generation 2 to be ready (READY=1), at most 1m30s")
	if status := o.interrupt(); !status.Signaled() || status.Signal() != unix.SIGINT {
		t.Errorf("it ended with %v, and not of the signal", status)
	}
	o.until("handoff 2 goes on, and is at step ready; zddsupervisor status --watch shows it, and zddsupervisor abort gives it up")
	if st := s.until("the handoff", func(*control.Status) bool { return true }); st.Current == nil || st.Phase != "ready" {
		t.Errorf("it does not go on: at step %s", st.Phase)
	}
	s.abort()

	tested("v2").write(t, s.dir)
	o = onTerminalOf(t, 100, "reload", "--control", s.control())
	if status := o.wait(); status.ExitStatus() != 0 {
		t.Errorf("the reload ended with %v", status)
	}
	o.until("generation 3 is live after")
	if line := lastDrawn(o.shown.String()); strings.Contains(line, "waits for") {
		t.Errorf("the line of the step that ran is left: %q", line)
	}

	status, out, _ := s.reload()
	if status != 0 || strings.Contains(out, "\x1b") || strings.Contains(out, "waits") || strings.Count(out, "\n") != 7 {
		t.Errorf("in a pipe the reload ended with %d, and has shown %q, want a line for each of 6 steps and one more", status, out)
	}
}

// lastDrawn is what the last line of a terminal has after all that was written over it.
func lastDrawn(shown string) string {
	lines := strings.Split(strings.TrimRight(shown, "\r\n"), "\n")
	last := lines[len(lines)-1]
	return last[strings.LastIndex(last, "\x1b[K")+1:]
}

// --watch draws in place on a terminal, as wide as that is, follows what happens, and leaves the terminal as it was; in a pipe it is plain.
func TestWatch(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	o := onTerminalOf(t, 60, "status", "--watch", "50ms", "--control", s.control())
	o.until("\x1b[?1049h\x1b[?25l\x1b[H\x1b[32mtest is live: generation 1 since")
	s.mustReload()
	o.until("test is live: generation 2 since")
	if status := o.interrupt(); status.ExitStatus() != 0 {
		t.Errorf("it ended with %v", status)
	}
	shown := o.shown.String()
	_, after, found := strings.Cut(shown, "\x1b[?25h\x1b[?1049l")
	if !found || !strings.Contains(after, "generation 2 since") || strings.Contains(after, "\x1b[H") {
		t.Errorf("it was left with %q", after)
	}
	for _, line := range strings.Split(after, "\r\n") {
		if n := len([]rune(withoutEscapes(line))); n >= 60 {
			t.Errorf("a line has %d columns of 60: %q", n, line)
		}
	}

	c := exec.Command(program, "status", "--watch=20ms", "--json", "--control", s.control())
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := range 3 {
		var st control.Status
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &st) != nil || st.Version != upgrade.StatusVersion {
			t.Errorf("line %d is %q", n, lines.Text())
		}
	}
	c.Process.Signal(unix.SIGTERM)
	io.Copy(io.Discard, out)
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if status, _, stderr := command(t, "status", "--watch", "0s", "--control", s.control()); status != 2 {
		t.Errorf("no time at all: status %d, %s", status, stderr)
	}
}

// withoutEscapes takes colors out of a line.
func withoutEscapes(line string) string {
	for {
		begin := strings.Index(line, "\x1b[")
		if begin < 0 {
			return line
		}
		end := begin + 2
		for end < len(line) && (line[end] < '@' || line[end] > '~') {
			end++
		}
		line = line[:begin] + line[min(end+1, len(line)):]
	}
}

// A unix socket that a process has shut down, and that cannot be put right since its name is an abstract one, is not shown as one that
// clients can connect to.
func TestShutDownUnixSocketIsShown(t *testing.T) {
	t.Parallel()
	c := tested("v0", "-shutdown-after=100ms")
	c.sockets = fmt.Sprintf("[[socket]]\nname = \"local\"\nlisten = \"@%s\"\n", filepath.Base(shortDir(t)))
	s := start(t, c)
	s.until("the socket to be shut down", func(st *control.Status) bool { return st.Sockets[0].ShutDown })
	status, out, _ := command(t, "status", "--control", s.control())
	for _, want := range []string{"NOBODY CAN CONNECT to local", "it was shut down", "shutdown(2)"} {
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("status %d: %q is not in\n%s", status, want, out)
		}
	}
}
