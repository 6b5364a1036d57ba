// Command check runs every check and test of this module, from its top directory, and says at the end what was skipped and why. Its
// last line is "N passed, N failed, N skipped". It exits with status 1 if anything failed or, with CI=true, was skipped.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx))
}

// step is one kind of check.
type step struct {
	name string
	run  func(context.Context, *report)
}

func run(ctx context.Context) int {
	var total report
	for _, s := range []step{
		{"gofmt", gofmt},
		{"vet", vet},
		{"staticcheck", staticcheck},
		{"tests", tests},
		{"integration tests", integrationTests},
		{"fuzzing", fuzz},
	} {
		if ctx.Err() != nil {
			total.fail(s.name, "interrupted")
			continue
		}
		fmt.Printf("== %s\n", s.name)
		begin := time.Now()
		s.run(ctx, &total)
		fmt.Printf("== %s took %s\n", s.name, time.Since(begin).Round(time.Second))
	}
	return total.end(os.Stdout, os.Getenv("CI") == "true")
}
