// Package standalone tests the built binary without systemd: signals, bad versions, bad configurations, load.
package standalone

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// program is the binary under test; racing says that it was built with -race, as these tests were.
var program string

func TestMain(m *testing.M) {
	if mode := os.Getenv(serviceEnv); mode != "" {
		os.Exit(service(mode))
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "zdd-standalone-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "zddsupervisor")
	args := []string{"build", "-o", program}
	if racing {
		args = append(args, "-race")
		// Each of many short processes would wait a second at its end, for reports of others.
		os.Setenv("GORACE", "atexit_sleep_ms=0")
	}
	build := exec.Command("go", append(args, "../../cmd/zddsupervisor")...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program under test: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
