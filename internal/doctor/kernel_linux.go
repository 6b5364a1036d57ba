package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// kernel tries what the supervisor needs of the kernel.
func (m machine) kernel(r *report) {
	var name unix.Utsname
	release := ""
	if unix.Uname(&name) == nil {
		release = " (Linux " + unix.ByteSliceToString(name.Release[:]) + ")"
	}
	if err := trySteering(); err != nil {
		r.add(Fails, fmt.Sprintf("TCP connections cannot be steered%s: %v", release, err),
			"sockets are shared by all versions, and a service that drops what it has accepted loses requests while it stops",
			"in a container or sandbox: allow setsockopt(2) SO_ATTACH_REUSEPORT_CBPF")
	} else {
		r.fine("TCP connections can be steered" + release)
	}
	if err := tryDiag(); err != nil {
		r.add(Warns, fmt.Sprintf("the kernel does not list connections: %v", err),
			"whether anything is on its way to an old version shows in accept queues alone", "modprobe -a inet_diag tcp_diag")
	} else {
		r.fine("the kernel lists sockets and connections (sock_diag)")
	}
	m.tracing(r)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		r.add(Warns, "there is no unified control group hierarchy at /sys/fs/cgroup",
			"the processes of a version are found by parents, sessions and environment, and one that hides from all three is missed",
			"boot with systemd.unified_cgroup_hierarchy=1")
	} else {
		r.fine("control groups are unified (cgroup2)")
	}
	if on, err := m.number("sys/net/ipv4/tcp_migrate_req"); err == nil && on != 0 {
		r.fine("the kernel itself moves connections that wait in a closed socket (net.ipv4.tcp_migrate_req=1)")
	} else {
		r.fine("connections that wait in a closed socket are passed on by the supervisor (net.ipv4.tcp_migrate_req=0)")
	}
}

// tracing tries to duplicate a descriptor of a process that this one has started.
func (m machine) tracing(r *report) {
	scope, err := m.number("sys/kernel/yama/ptrace_scope")
	if err == nil && scope >= 3 {
		r.add(Warns, "Yama allows no tracing at all (kernel.yama.ptrace_scope=3)",
			`kept-alive connections cannot be carried over (handoff.keepalive = "carry"), nor sockets be taken back without systemd`,
			"echo kernel.yama.ptrace_scope=1 > /etc/sysctl.d/zddsupervisor.conf, and reboot: 3 stays until then")
		return
	}
	if err := tryGetfd(); err != nil {
		r.add(Warns, fmt.Sprintf("descriptors of another process cannot be duplicated: %v", err),
			`kept-alive connections cannot be carried over (handoff.keepalive = "carry"), nor sockets be taken back without systemd`,
			"in a container or sandbox: allow pidfd_getfd(2); else Linux 5.6 or later is needed")
		return
	}
	text := "descriptors of a process can be duplicated (pidfd_getfd)"
	if err == nil {
		text += fmt.Sprintf(", with kernel.yama.ptrace_scope=%d", scope)
	}
	r.fine(text)
}

// number reads a number below /proc.
func (m machine) number(path string) (int, error) {
	text, err := os.ReadFile(filepath.Join(m.proc, path))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// tryFor is how long a try may take.
const tryFor = 5 * time.Second

// trySteering steers a connection on a loopback socket to the second of two versions.
func trySteering() error {
	bound, _, err := fdpass.Open([]fdpass.Spec{{Network: fdpass.TCP4, Address: "127.0.0.1:0"}}, fdpass.OpenOptions{})
	if err != nil {
		return err
	}
	s := bound[0].Socket
	defer s.Close()
	if s.Mode() != fdpass.Steered {
		return errors.New("the kernel refuses the program that steers")
	}
	var second *fdpass.FD
	for version := 1; version <= 2; version++ {
		fd, err := s.Join(version, 0)
		if err != nil {
			return err
		}
		defer fd.Close()
		second = fd
	}
	if err := s.Cutover(2); err != nil {
		return err
	}
	client, err := net.DialTimeout("tcp4", strings.TrimPrefix(strings.TrimPrefix(s.Addr(), "tcp4://"), "tcp://"), tryFor)
	if err != nil {
		return err
	}
	defer client.Close()
	waits := []unix.PollFd{{Fd: int32(second.Raw()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(waits, int(tryFor.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return os.NewSyscallError("poll", err)
		case n == 0:
			return errors.New("a connection went to the wrong socket")
		}
		return nil
	}
}

// tryDiag asks the kernel for connections.
func tryDiag() error {
	bound, _, err := fdpass.Open([]fdpass.Spec{{Network: fdpass.TCP4, Address: "127.0.0.1:0"}}, fdpass.OpenOptions{})
	if err != nil {
		return err
	}
	defer bound[0].Socket.Close()
	_, err = fdpass.TakeCensus(bound)
	return err
}

// tryGetfd duplicates a descriptor of a child.
func tryGetfd() error {
	ctx, cancel := context.WithTimeout(context.Background(), tryFor)
	defer cancel()
	c := exec.CommandContext(ctx, "cat") // which waits for its input to end
	input, err := c.StdinPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	defer c.Wait()
	defer input.Close()
	process, err := unix.PidfdOpen(c.Process.Pid, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(process)
	fd, err := unix.PidfdGetfd(process, 0, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_getfd", err)
	}
	return unix.Close(fd)
}
