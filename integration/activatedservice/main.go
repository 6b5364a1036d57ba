// Command activatedservice is a service as one writes it for systemd with github.com/coreos/go-systemd and net/http: it takes its socket with
// the package activation, says that it is ready with the package daemon, and finishes its requests on SIGTERM.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	listeners, err := activation.Listeners()
	if err != nil || len(listeners) != 1 {
		log.Fatalf("got %d sockets: %v", len(listeners), err)
	}
	version := os.Getenv("VERSION") // in a container every version has the same pid
	if version == "" {
		version = fmt.Sprint(os.Getpid())
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Version", version)
		fmt.Fprintln(w, "hello")
	})}
	go func() {
		if err := server.Serve(listeners[0]); err != http.ErrServerClosed {
			log.Fatal(err)
		}
	}()
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		log.Fatal(err)
	}
	<-ctx.Done()
	if err := server.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
}
