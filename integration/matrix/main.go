// Command matrix measures what real services lose by themselves when they are handed off: each one on a shared and on a steered socket, under
// GET and POST on new and on kept-alive connections, all four at once, on a machine with systemd that it boots for this.
//
//	go run ./integration/matrix --write docs/services.md
//
// It puts its table between the marks in that page. With --results it can be done in several runs. It needs root, and the root file systems that
// integration/test.sh makes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/build"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/machine"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/services"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// loadEnv makes this program a load client in the machine's network.
const loadEnv = "ZDD_MATRIX_LOAD"

func main() {
	machine.Init()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	if os.Getenv(loadEnv) != "" {
		err = load.Serve(ctx, os.Stdin, os.Stdout)
	} else {
		err = matrix(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func matrix(ctx context.Context) error {
	handoffs := flag.Int("handoffs", 20, "how often each service is handed off in each mode")
	only := flag.String("only", "", "measure these services only, with commas between their `names`")
	results := flag.String("results", "", "add what is measured to this `file`, and make the table of everything in it")
	write := flag.String("write", "", "put the table into this `file`, between its marks, instead of standard output")
	caddy := flag.String("caddy", "", "measure this caddy too, a `program` that go install github.com/caddyserver/caddy/v2/cmd/caddy makes")
	remark := flag.String("remark", "", "what else a reader must know of how it was measured, as a sentence")
	flag.Parse()
	all := services.All()
	if *caddy != "" {
		s := services.Caddy()
		s.Program = func(*build.Programs, context.Context) (string, error) { return *caddy, nil }
		all = append(all, s)
	}
	if *only != "" {
		names := strings.Split(*only, ",")
		all = slices.DeleteFunc(all, func(s services.Service) bool { return !slices.Contains(names, s.Name) })
	}
	b, err := newBench()
	if err != nil {
		return err
	}
	defer b.close()
	rows, err := earlier(*results)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range all {
		for _, mode := range []fdpass.Mode{fdpass.Shared, fdpass.Steered} {
			m, err := b.measure(ctx, s, mode, *handoffs)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s, %s: %w", s.Name, mode, err))
				fmt.Fprintln(os.Stderr, errs[len(errs)-1])
			}
			for _, l := range m {
				fmt.Fprintf(os.Stderr, "%s, %s, %s: %s\n", s.Name, mode, l.kind, l.result)
				rows.add(s.Name, mode, l)
			}
			if err := rows.save(*results); err != nil {
				return err
			}
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return writeTable(*write, *handoffs, *remark, rows)
}
