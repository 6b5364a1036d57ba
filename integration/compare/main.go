// Command compare measures ways to deploy, beside each other: the same service, the same load, the same number of handoffs, on a
// machine with systemd that it boots for this. Each way has its turn in each round.
//
//	go run ./integration/compare --rounds 3 --write docs/comparison.md
//
// It needs root, and the root file systems that integration/test.sh makes.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/machine"
)

// loadEnv makes this program the client that does not pause, in the machine's network.
const loadEnv = "ZDD_COMPARE_LOAD"

func main() {
	machine.Init()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	if os.Getenv(loadEnv) != "" {
		err = runFull(ctx)
	} else {
		err = compare(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context) error {
	rounds := flag.Int("rounds", 3, "how often each way has its turn")
	write := flag.String("write", "", "write the page to this `file` instead of standard output")
	remark := flag.String("remark", "", "what else a reader must know of how it was measured, as a sentence")
	flag.Parse()
	b, err := newBench(ctx)
	if err != nil {
		return err
	}
	defer b.close()
	all := ways()
	if err := b.install(ctx, all); err != nil {
		return err
	}
	results := make([][]measured, len(all))
	for round := range *rounds {
		for i, w := range all {
			m, err := b.measure(ctx, w)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			fmt.Fprintf(os.Stderr, "round %d, %s: %s: %s\n", round+1, w.name, m.report.Verdict, m.report.Reason)
			results[i] = append(results[i], *m)
		}
	}
	out := io.Writer(os.Stdout)
	if *write != "" {
		f, err := os.Create(*write)
		if err != nil {
			return err
		}
		defer f.Close()
		out = f
	}
	return writePage(out, *remark, all, results)
}
