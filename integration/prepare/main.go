// Command prepare makes what the integration tests need and cannot make while they run: the root file systems of their machines. It
// does nothing if they are there. On failure it prints what the making of them said.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := prepare(ctx, rootfs.Cache()); err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		os.Exit(1)
	}
}

// prepare builds all root file systems at once: most of the time goes into unpacking, on one core each.
func prepare(ctx context.Context, cache string) error {
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, r := range rootfs.All() {
		wait.Add(1)
		go func() {
			defer wait.Done()
			var log bytes.Buffer
			begin := time.Now()
			err := r.Build(ctx, cache, &log)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				_, _ = os.Stderr.Write(log.Bytes())
				errs = append(errs, err)
				return
			}
			fmt.Printf("root file system %s (systemd %d) is ready after %s\n", r.Suite, r.Systemd, time.Since(begin).Round(time.Second))
		}()
	}
	wait.Wait()
	return errors.Join(errs...)
}
