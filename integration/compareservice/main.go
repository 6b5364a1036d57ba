// Command compareservice is the service that the comparison of ways to deploy hands over by each of them: the same net/http server,
// which differs in nothing but where its socket comes from. It takes a while to start, and stops by Shutdown on SIGTERM.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cloudflare/tableflip"
	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/systemd"
)

func main() {
	by := flag.String("by", "bind", "where the socket comes from: bind, reuseport, systemd, starter (Server::Starter) or tableflip")
	address := flag.String("address", "", "the `address` to bind")
	startUp := flag.Duration("start-up", 0, "how long it takes until it can serve")
	flag.Parse()
	time.Sleep(*startUp)
	var err error
	if *by == "tableflip" {
		err = flip(*address)
	} else {
		err = once(*by, *address)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compareservice:", err)
		os.Exit(1)
	}
}

func newServer() *http.Server {
	pid := strconv.Itoa(os.Getpid())
	return &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Pid", pid)
		fmt.Fprintln(w, "hello")
	})}
}

// once serves until SIGTERM.
func once(by, address string) error {
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	l, err := listen(by, address)
	if err != nil {
		return err
	}
	server := newServer()
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	if err := sayReady(); err != nil {
		return err
	}
	select {
	case err := <-served:
		return err
	case <-term:
	}
	return server.Shutdown(context.Background())
}

func listen(by, address string) (net.Listener, error) {
	switch by {
	case "bind":
		return net.Listen("tcp", address)
	case "reuseport":
		c := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
			if e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }); e != nil {
				return e
			}
			return err
		}}
		return c.Listen(context.Background(), "tcp", address)
	case "systemd":
		return fileListener(3)
	case "starter":
		_, fd, ok := strings.Cut(os.Getenv("SERVER_STARTER_PORT"), "=")
		n, err := strconv.Atoi(fd)
		if !ok || err != nil {
			return nil, fmt.Errorf("SERVER_STARTER_PORT=%q names no descriptor", os.Getenv("SERVER_STARTER_PORT"))
		}
		return fileListener(n)
	}
	return nil, fmt.Errorf("no socket comes from %q", by)
}

func fileListener(fd int) (net.Listener, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	return net.FileListener(f)
}

// flip serves until tableflip has replaced this process, or until SIGTERM.
func flip(address string) error {
	upgrader, err := tableflip.New(tableflip.Options{})
	if err != nil {
		return err
	}
	defer upgrader.Stop()
	hup, term := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(hup, unix.SIGHUP)
	signal.Notify(term, unix.SIGTERM)
	go func() {
		for range hup {
			if err := upgrader.Upgrade(); err != nil {
				fmt.Fprintln(os.Stderr, "compareservice:", err)
			}
		}
	}()
	l, err := upgrader.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := newServer()
	go server.Serve(l)
	if err := upgrader.Ready(); err != nil {
		return err
	}
	if err := sayReady(); err != nil {
		return err
	}
	select {
	case <-upgrader.Exit():
	case <-term:
	}
	return server.Shutdown(context.Background())
}

// sayReady tells systemd, and that this is the main process now: tableflip starts its successor itself.
func sayReady() error {
	manager, err := systemd.NewNotifier(os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return err
	}
	if err := manager.MainPID(os.Getpid()); err != nil {
		return err
	}
	return manager.Ready("")
}
