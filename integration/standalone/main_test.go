// Package standalone tests the built binary without systemd: signals, bad versions, bad configurations, load.
package standalone

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// program is the binary under test, built with -race if these tests were; testservice is a service for it that is no larger than
// it has to be, so that what is measured is not the time that it takes to start.
var program, testservice string

// longRun is a flag, since a hundred take a minute for each.
var longRun = flag.Int("handoffs", 15, "handoffs under load of each way in which a service binds by itself")

func TestMain(m *testing.M) {
	if mode := os.Getenv(serviceEnv); mode != "" {
		os.Exit(service(mode))
	}
	if os.Getenv(loadEnv) != "" {
		if err := load.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "load:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if change := os.Getenv(firewallEnv); change != "" {
		if err := changeFirewall(change, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "firewall:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "zdd-standalone-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // for tests as another user
		panic(err)
	}
	program, testservice = filepath.Join(dir, "zddsupervisor"), filepath.Join(dir, "testservice")
	var race []string
	if racing {
		race = []string{"-race"}
		// Each of many short processes would wait a second at its end, for reports of others.
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	for _, args := range [][]string{append(race, "-o", program, "../../cmd/zddsupervisor"), {"-o", testservice, "../testservice"}} {
		build := exec.Command("go", append([]string{"build"}, args...)...)
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build %s: %v\n%s", args, err, out)
			return 1
		}
	}
	return m.Run()
}
