package standalone

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// serviceEnv makes the test binary the service; its value is "VERSION" or "VERSION:FAULT".
const serviceEnv = "ZDD_TEST_SERVICE"

// report is what the service says about itself.
type report struct {
	Version   string
	PID, PPID int
	ListenPID string
	Names     []string // LISTEN_FDNAMES
	Kinds     []string // of the sockets, in order: "tcp 127.0.0.1:80"
	Open      []int    // descriptors that it was started with, beside its own
	Env       []string
	Ignored   string // SigIgn of /proc/self/status
	Blocked   string // SigBlk
	Directory string
}

// service is the service. It returns the exit status.
func service(mode string) int {
	version, fault, _ := strings.Cut(mode, ":")
	about := describe(version)
	switch fault {
	case "exit":
		return 7
	case "exit-late":
		time.Sleep(2 * time.Second)
		return 7
	case "segv":
		signal.Reset(unix.SIGSEGV)
		unix.Kill(os.Getpid(), unix.SIGKILL) // the runtime turns SIGSEGV into a panic; a death by signal is what counts
	case "mute":
		select {}
	case "daemon":
		// What daemon(3) does: the main process leaves, another one goes on in a session of its own.
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), serviceEnv+"="+version+":mute")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			panic(err)
		}
		return 0
	}
	names := strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	inherited, err := systemd.Inherited()
	if err != nil {
		panic(err)
	}
	manager, err := systemd.NewNotifier(os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		panic(err)
	}
	if fault == "close" {
		for _, fds := range inherited {
			for _, fd := range fds {
				fd.Close()
			}
		}
		select {}
	}
	var listeners []net.Listener
	for _, name := range names {
		for _, fd := range inherited[name] {
			kind, err := unix.GetsockoptInt(fd.Raw(), unix.SOL_SOCKET, unix.SO_TYPE)
			if err != nil {
				panic(err)
			}
			f := os.NewFile(uintptr(fd.Disown()), name)
			if kind == unix.SOCK_DGRAM {
				p, err := net.FilePacketConn(f)
				if err != nil {
					panic(err)
				}
				about.Kinds = append(about.Kinds, p.LocalAddr().Network()+" "+p.LocalAddr().String())
				continue
			}
			l, err := net.FileListener(f)
			if err != nil {
				panic(err)
			}
			about.Kinds = append(about.Kinds, l.Addr().Network()+" "+l.Addr().String())
			listeners = append(listeners, l)
		}
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	if fault == "plain" {
		return servePlain(listeners[0], manager, about, term)
	}
	stopping := make(chan struct{})
	var all sync.WaitGroup
	for _, l := range listeners {
		all.Add(1)
		go func() {
			defer all.Done()
			serveAll(l, about, stopping)
		}()
	}
	if fault == "chatty" {
		go func() {
			for n := 0; ; n++ {
				fmt.Printf("%s line %d %s\n", version, n, strings.Repeat("x", 100))
			}
		}()
	}
	if err := manager.Ready("serving " + version); err != nil {
		panic(err)
	}
	if fault == "stubborn" {
		select {}
	}
	<-term
	close(stopping)
	for _, l := range listeners {
		l.Close()
	}
	all.Wait()
	return 0
}

// serveAll answers every connection that it accepts, whatever happens: the service that finishes what it has begun. A
// request for /slow it answers three seconds after it was told to stop.
func serveAll(l net.Listener, about report, stopping <-chan struct{}) {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			panic(err)
		}
		open.Add(1)
		go func() {
			defer open.Done()
			defer c.Close()
			var buf [4096]byte
			n, err := c.Read(buf[:])
			if err != nil {
				return
			}
			if bytes.HasPrefix(buf[:n], []byte("GET /slow")) {
				<-stopping
				time.Sleep(3 * time.Second)
			}
			body, _ := json.Marshal(about)
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nX-Version: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", about.Version, len(body), body)
		}()
	}
}

// servePlain is net/http as everybody uses it. In shared mode it loses requests by itself: Shutdown closes connections
// that it has accepted and whose request it has not read.
func servePlain(l net.Listener, manager *systemd.Notifier, about report, term <-chan os.Signal) int {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Version", about.Version)
		json.NewEncoder(w).Encode(about)
	})}
	go server.Serve(l)
	if err := manager.Ready(""); err != nil {
		panic(err)
	}
	<-term
	server.Shutdown(context.Background())
	return 0
}

// describe looks at what this process was started with.
func describe(version string) report {
	r := report{Version: version, PID: os.Getpid(), PPID: os.Getppid(), ListenPID: os.Getenv("LISTEN_PID"), Env: os.Environ()}
	if names := os.Getenv("LISTEN_FDNAMES"); names != "" {
		r.Names = strings.Split(names, ":")
	}
	r.Directory, _ = os.Getwd()
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "SigIgn:"); ok {
			r.Ignored = strings.TrimSpace(rest)
		}
		if rest, ok := strings.CutPrefix(line, "SigBlk:"); ok {
			r.Blocked = strings.TrimSpace(rest)
		}
	}
	for fd := range 100 {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil {
			continue
		}
		// The runtime's own (its poller) are close-on-exec; what was passed on is not.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			r.Open = append(r.Open, fd)
		}
	}
	slices.Sort(r.Open)
	return r
}
