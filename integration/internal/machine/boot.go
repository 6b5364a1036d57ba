package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Options say what to boot.
type Options struct {
	// Root is the directory of the root file system. It is not written to, and must stay until the machine has stopped.
	Root string
	// Hostname is the machine's name; "machine" by default.
	Hostname string
}

// Machine is a booted machine.
type Machine struct {
	dir    string // scratch directory on the host: notify socket, console
	cgroup string // its cgroup's directory on the host
	root   int    // the machine's root directory, as an O_PATH descriptor
	init   *os.Process
	done   chan struct{} // closed when init was waited for
	exit   error         // of init; after done
}

// Boot starts a machine and blocks until its systemd has started all that belongs to its default target, or ctx ends. It needs root, user
// space enough for namespaces, and a writable cgroup2 hierarchy; [Init] must be called in TestMain. On error nothing is left. The caller
// calls [Machine.Stop].
func Boot(ctx context.Context, o Options) (m *Machine, err error) {
	if o.Hostname == "" {
		o.Hostname = "machine"
	}
	m = &Machine{root: -1, done: make(chan struct{})}
	defer func() {
		if err != nil {
			m.Kill()
			m = nil
		}
	}()
	if m.dir, err = os.MkdirTemp("", "zdd-machine-"); err != nil {
		return m, err
	}
	if m.cgroup, err = newCgroup(); err != nil {
		return m, err
	}
	notify, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(m.dir, "notify"), Net: "unixgram"})
	if err != nil {
		return m, err
	}
	defer notify.Close()
	if err := m.start(o); err != nil {
		return m, err
	}
	if err := m.awaitReady(ctx, notify); err != nil {
		console, _ := os.ReadFile(m.console())
		return m, fmt.Errorf("boot %s: %w\n%s", o.Root, err, bytes.TrimSpace(console))
	}
	m.root, err = unix.Open(fmt.Sprintf("/proc/%d/root", m.init.Pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return m, os.NewSyscallError("open", err)
	}
	return m, nil
}

// console is the path of what init has said before and beside the journal.
func (m *Machine) console() string { return filepath.Join(m.dir, "console") }

// start starts the machine's init.
func (m *Machine) start(o Options) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	console, err := os.Create(m.console())
	if err != nil {
		return err
	}
	defer console.Close()
	cg, err := os.Open(m.cgroup)
	if err != nil {
		return err
	}
	defer cg.Close()
	plan, err := plan{Root: o.Root, Hostname: o.Hostname, Dir: m.dir}.encode()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = []string{initEnv + "=" + plan}
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
		// The cgroup namespace is made by init itself, once it is in its cgroup, which becomes the root of the namespace.
		UseCgroupFD: true,
		CgroupFD:    int(cg.Fd()),
	}
	started := make(chan error)
	go func() {
		defer close(m.done)
		// The death signal comes when the thread ends that started the process (prctl(2)), so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			m.exit = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start init: %w", err)
	}
	m.init = cmd.Process
	return nil
}

// awaitReady blocks until systemd says on the socket that it has booted.
func (m *Machine) awaitReady(ctx context.Context, notify *net.UnixConn) error {
	ready := make(chan error, 1)
	go func() {
		message := make([]byte, 4096)
		for {
			n, err := notify.Read(message)
			if err != nil {
				ready <- err
				return
			}
			for line := range strings.SplitSeq(string(message[:n]), "\n") {
				if line == "READY=1" {
					ready <- nil
					return
				}
			}
		}
	}()
	var err error
	select {
	case err := <-ready:
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-m.done:
		err = errors.Join(errors.New("init has ended"), m.exit)
	}
	notify.Close()
	<-ready
	return err
}
