package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// demoServiceCommand is the service that demo hands off: an ordinary one, that takes its socket from LISTEN_FDS, says
// READY=1 and finishes what it has accepted on SIGTERM.
func demoServiceCommand() *cobra.Command {
	var version string
	var warmUp time.Duration
	var fail int
	cmd := &cobra.Command{
		Use:    "demo-service",
		Short:  "The service that demo hands off",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			time.Sleep(warmUp) // as if it loaded something
			if fail != 0 {
				os.Exit(fail)
			}
			return serveDemo(cmd.Context(), version)
		},
	}
	cmd.Flags().StringVar(&version, "version", "v1", "what it calls itself in its answers")
	cmd.Flags().DurationVar(&warmUp, "warm-up", 0, "how long it takes to get ready")
	cmd.Flags().IntVar(&fail, "fail", 0, "exit with this status instead of getting ready")
	return cmd
}

func serveDemo(ctx context.Context, version string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	inherited, err := systemd.Inherited()
	if err != nil {
		return err
	}
	var listener net.Listener
	for name, fds := range inherited {
		f := os.NewFile(uintptr(fds[0].Disown()), name)
		if listener, err = net.FileListener(f); err != nil {
			return fmt.Errorf("use the passed socket %s: %w", name, err)
		}
		f.Close()
	}
	if listener == nil {
		return errors.New("no socket was passed; this service is for zddsupervisor demo")
	}
	var fresh connections
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Version", version)
			fmt.Fprintf(w, "%s, pid %d\n", version, os.Getpid())
		}),
		ConnState: fresh.track,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	manager, err := systemd.NewNotifier(os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return err
	}
	if err := manager.Ready("serving " + version); err != nil {
		return err
	}
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	// Shutdown drops connections that were accepted and whose request it has not read yet, so those come first.
	listener.Close()
	<-served
	fresh.wait()
	return server.Shutdown(context.Background())
}

// connections counts those that were accepted and have not sent a request yet.
type connections struct {
	mu   sync.Mutex
	is   map[net.Conn]bool
	none chan struct{} // closed when somebody waits and there is none
}

func (c *connections) track(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateNew {
		if c.is == nil {
			c.is = make(map[net.Conn]bool)
		}
		c.is[conn] = true
		return
	}
	delete(c.is, conn)
	if len(c.is) == 0 && c.none != nil {
		close(c.none)
		c.none = nil
	}
}

// wait blocks until there is none. No new ones may come any more.
func (c *connections) wait() {
	c.mu.Lock()
	none := make(chan struct{})
	if len(c.is) == 0 {
		close(none)
	} else {
		c.none = none
	}
	c.mu.Unlock()
	<-none
}
