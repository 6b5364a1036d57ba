// Command activatedservice is a service as one writes it for systemd with github.com/coreos/go-systemd and net/http: it takes its socket with
// the package activation, says that it is ready with the package daemon, and finishes its requests on SIGTERM. An answer has the query's id=ID and
// the length and checksum of the request's body, as the headers X-Id and X-Body. With $EXECUTED each request that it executes is a line of that file,
// the target with a blank after it.
package main

import (
	"context"
	"fmt"
	"hash/crc32"
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
	executed := io.Discard
	if path := os.Getenv("EXECUTED"); path != "" {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			log.Fatal(err)
		}
		executed = file
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := crc32.NewIEEE()
		size, err := io.Copy(sum, r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(executed, "%s \n", r.RequestURI)
		w.Header().Set("X-Version", version)
		w.Header().Set("X-Id", r.URL.Query().Get("id"))
		w.Header().Set("X-Body", fmt.Sprintf("%d-%08x", size, sum.Sum32()))
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
