package integration_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/build"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/keptload"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/machine"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// loadEnv and keptLoadEnv make the test binary a load client, for use in a machine's network.
const (
	loadEnv     = "ZDD_TEST_LOAD"
	keptLoadEnv = "ZDD_TEST_KEPT_LOAD"
)

func TestMain(m *testing.M) {
	machine.Init()
	if os.Getenv(loadEnv) != "" {
		if err := load.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "load:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(keptLoadEnv) != "" {
		if err := keptload.Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "load:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(run(m))
}

// programs compiles what the tests put into their machines, once for all of them. TestMain sets it.
var programs *build.Programs

func run(m *testing.M) int {
	var err error
	if programs, err = build.New(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer programs.Close()
	return m.Run()
}
