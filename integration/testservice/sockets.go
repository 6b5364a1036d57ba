package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// firstFD is SD_LISTEN_FDS_START.
const firstFD = 3

// socket is one that was passed, or bound.
type socket struct {
	name string
	file *os.File
}

// open returns the sockets to serve.
func open(o options) ([]socket, error) {
	if o.bind != "" {
		return listen(o)
	}
	passed, err := inherited()
	if err != nil {
		return nil, err
	}
	var wanted []socket
	for _, s := range passed {
		if o.acceptOnly == "" || s.name == o.acceptOnly {
			wanted = append(wanted, s)
		}
	}
	return wanted, nil
}

// listen opens sockets on the address of -bind.
func listen(o options) (all []socket, err error) {
	var c net.ListenConfig
	if o.reusePort {
		c.SetMultipathTCP(false)
		c.Control = func(_, _ string, raw syscall.RawConn) (err error) {
			controlErr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
			return errors.Join(controlErr, err)
		}
	}
	network, address := "tcp", o.bind
	if path, ok := strings.CutPrefix(o.bind, "unix:"); ok {
		if o.unlinkSockets { // what an earlier one has left, as such services do
			_ = os.Remove(path)
		}
		network, address = "unix", path
	}
	for range o.ownSockets {
		l, err := c.Listen(context.Background(), network, address)
		if err != nil {
			return nil, err
		}
		f, err := l.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			return nil, err
		}
		if u, ok := l.(*net.UnixListener); ok {
			u.SetUnlinkOnClose(false)
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		all = append(all, socket{"own", f})
	}
	return all, nil
}

// inherited takes the passed sockets as sd_listen_fds_with_names(3) does, and is as strict.
func inherited() ([]socket, error) {
	if pid := os.Getenv("LISTEN_PID"); pid != strconv.Itoa(os.Getpid()) && os.Getenv(daemonEnv) == "" && os.Getenv(workerEnv) == "" {
		return nil, fmt.Errorf("no sockets were passed: LISTEN_PID is %q, my pid is %d", pid, os.Getpid())
	}
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if err != nil || n < 0 {
		return nil, fmt.Errorf("LISTEN_FDS is %q", os.Getenv("LISTEN_FDS"))
	}
	names := strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	if n > 0 && len(names) != n {
		return nil, fmt.Errorf("LISTEN_FDS is %d, LISTEN_FDNAMES %q", n, names)
	}
	if n == 0 {
		return nil, errors.New("LISTEN_FDS is 0")
	}
	var all []socket
	for i := range n {
		fd := firstFD + i
		unix.CloseOnExec(fd)
		all = append(all, socket{names[i], os.NewFile(uintptr(fd), names[i])})
	}
	return all, nil
}

// newServer serves s in the way that its type asks for.
func newServer(o options, given info, requests *journal, s socket) (server, error) {
	kind, err := unix.GetsockoptInt(int(s.file.Fd()), unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return nil, os.NewSyscallError("getsockopt", err)
	}
	if o.holdOpen == (while{}) {
		defer s.file.Close() // the listener has a duplicate
	}
	if kind == unix.SOCK_DGRAM {
		c, err := net.FilePacketConn(s.file)
		if err != nil {
			return nil, err
		}
		return serveDatagrams(given, c), nil
	}
	l, err := net.FileListener(s.file)
	if err != nil {
		return nil, err
	}
	if u, ok := l.(*net.UnixListener); ok && o.unlinkSockets {
		u.SetUnlinkOnClose(true)
	}
	h := &handler{info: given, work: o.work, journal: requests, healthFile: o.healthFile}
	switch o.serve {
	case "finish":
		return serveFinishing(o, h, l.(listener)), nil
	case "http":
		return serveHTTP(o, h, l), nil
	case "http-shut":
		return serveHTTP(o, h, mannered{l, func(c *net.TCPConn) net.Conn { return shut{c} }}), nil
	}
	return nil, fmt.Errorf("unknown way to serve: %q", o.serve)
}

// shutdownAll returns a function that shuts the first n passed sockets down.
func shutdownAll(n int) (func(), error) {
	var own []int
	for i := range n {
		fd, err := unix.FcntlInt(uintptr(firstFD+i), unix.F_DUPFD_CLOEXEC, firstFD+n)
		if err != nil {
			return nil, os.NewSyscallError("fcntl", err)
		}
		own = append(own, fd)
	}
	return func() {
		for _, fd := range own {
			_ = unix.Shutdown(fd, unix.SHUT_RDWR)
		}
	}, nil
}
