// Command matrix measures what real services lose by themselves when they are handed off: each one on a shared and on a steered socket, under
// GET and POST on new and on kept-alive connections, all four at once, and once more with those that are kept alive carried over. Each measurement
// has a machine with systemd of its own.
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
	"sync"
	"syscall"

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
	which := flag.String("ways", "shared,steered,carried", "measure these `ways` only, in this order, with commas between them")
	parallel := flag.Int("parallel", 1, "how many machines to run at once")
	results := flag.String("results", "", "add what is measured to this `file`, leave out what is in it already, and make the table of everything in it")
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
	var jobs []job
	for _, name := range strings.Split(*which, ",") {
		i := slices.IndexFunc(ways(), func(w way) bool { return w.name == name })
		if i < 0 {
			return fmt.Errorf("there is no way %q", name)
		}
		w := ways()[i]
		for _, s := range all {
			if len(kindsOf(s, w)) > 0 && !rows.have(s.Name, w) {
				jobs = append(jobs, job{s, w})
			}
		}
	}
	var (
		errs []error
		mu   sync.Mutex // guards errs and rows
		wait sync.WaitGroup
		next = make(chan job)
	)
	for range *parallel {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for j := range next {
				m, err := b.measure(ctx, j.service, j.way, *handoffs)
				mu.Lock()
				if err != nil {
					err = fmt.Errorf("%s, %s: %w", j.service.Name, j.way.name, err)
					fmt.Fprintln(os.Stderr, err)
				} else {
					for _, l := range m {
						fmt.Fprintf(os.Stderr, "%s, %s, %s: %s\n", j.service.Name, j.way.name, l.kind, l.result)
						rows.add(j.service.Name, j.way, *handoffs, l)
					}
					err = rows.save(*results)
				}
				errs = append(errs, err)
				mu.Unlock()
			}
		}()
	}
	for _, j := range jobs {
		next <- j
	}
	close(next)
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return writeTable(*write, *remark, rows)
}
