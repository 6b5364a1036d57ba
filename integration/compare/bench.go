package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/build"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/machine"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
	"github.com/zddsupervisor/zddsupervisor/internal/drill"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

const (
	supervisorPath = "/usr/bin/zddsupervisor"
	// address is where clients come in, whatever the way.
	address = "127.0.0.1:8080"

	handoffs  = 5    // of each way in each round
	rate      = 1000 // requests a second
	mostTries = 3    // of a drill that finds the machine too busy

	full        = 3 * time.Second // how long throughput is measured
	fullWorkers = 8
	limit       = 2 * time.Minute // for one command inside
)

// bench is the machine on which all is measured. close ends it.
type bench struct {
	machine  *machine.Machine
	root     *rootfs.Root
	programs *build.Programs
}

// measured is what came of one way in one round.
type measured struct {
	report     *drill.Report
	throughput float64         // requests a second
	resident   int             // KiB of what was added
	toLive     []time.Duration // of each handoff: from the request to the first answer of the new process
}

func newBench(ctx context.Context) (b *bench, err error) {
	b = &bench{}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.programs, err = build.New(); err != nil {
		return b, err
	}
	r := rootfs.Trixie()
	if b.root, err = r.Use(rootfs.Cache()); err != nil {
		return b, fmt.Errorf("%w: run integration/test.sh as root, it builds it", err)
	}
	b.machine, err = machine.Boot(ctx, machine.Options{Root: b.root.Dir, Hostname: r.Suite})
	return b, err
}

func (b *bench) close() {
	if b.machine != nil {
		_ = b.machine.Kill()
	}
	if b.root != nil {
		_ = b.root.Close()
	}
	if b.programs != nil {
		_ = b.programs.Close()
	}
}

// install puts everything into the machine; nothing is started.
func (b *bench) install(ctx context.Context, all []way) error {
	for path, compile := range map[string]func(context.Context) (string, error){
		supervisorPath: b.programs.Supervisor, comparedPath: b.programs.ComparedService,
	} {
		program, err := compile(ctx)
		if err != nil {
			return err
		}
		if err := b.machine.CopyFile(ctx, program, path, 0o755); err != nil {
			return err
		}
	}
	for _, w := range all {
		if err := b.installWay(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return nil
}

func (b *bench) installWay(ctx context.Context, w way) error {
	for _, name := range slices.Sorted(maps.Keys(w.files)) {
		path := name
		if isUnit(name) {
			path = "/run/systemd/system/" + name
		}
		if err := b.machine.WriteFile(ctx, path, []byte(w.files[name]), 0o644); err != nil {
			return err
		}
	}
	if w.config == "" {
		return nil
	}
	unit, err := b.machine.Output(ctx, supervisorPath, "unit", "--config", w.config)
	if err != nil {
		return err
	}
	return b.machine.WriteFile(ctx, "/run/systemd/system/"+w.start[0], []byte(unit), 0o644)
}

// measure gives a way its turn. Nothing of it is left afterwards.
func (b *bench) measure(ctx context.Context, w way) (m *measured, err error) {
	// The ways share names of units; those of this one count.
	if err := b.installWay(ctx, w); err != nil {
		return nil, err
	}
	must := func(argv ...string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return b.machine.Output(ctx, argv...)
	}
	if _, err := must("systemctl", "daemon-reload"); err != nil {
		return nil, err
	}
	if _, err := must(append([]string{"systemctl", "start"}, w.start...)...); err != nil {
		return nil, err
	}
	defer func() {
		_, stopErr := must(append([]string{"systemctl", "stop"}, w.stop...)...)
		err = errors.Join(err, stopErr)
	}()
	if _, err := must("curl", "--silent", "--show-error", "--fail", "--retry", "50", "--retry-connrefused", "--retry-delay", "1", "http://"+address+"/"); err != nil {
		return nil, err
	}
	m = &measured{}
	if m.throughput, err = b.full(ctx); err != nil {
		return nil, err
	}
	if m.report, err = b.drill(ctx, w); err != nil {
		return nil, err
	}
	for _, h := range m.report.Handoffs {
		for _, a := range m.report.Answered {
			if slices.Contains(h.New, a.Name) {
				m.toLive = append(m.toLive, a.First-h.From)
			}
		}
	}
	if w.added != "" {
		if m.resident, err = b.resident(ctx, w.added); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// drill runs the drill inside, again where the machine was too busy for a verdict. Which verdict it comes to is no error.
func (b *bench) drill(ctx context.Context, w way) (*drill.Report, error) {
	for tries := 1; ; tries++ {
		rep, err := b.drillOnce(ctx, w)
		switch {
		case err != nil:
			return nil, err
		case rep.Busy && tries < mostTries:
			fmt.Fprintf(os.Stderr, "%s, once more: %s\n", w.name, rep.Reason)
		case rep.Verdict == drill.Inconclusive:
			return nil, fmt.Errorf("%s: %s", rep.Verdict, rep.Reason)
		default:
			return rep, nil
		}
	}
}

func (b *bench) drillOnce(ctx context.Context, w way) (*drill.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, err := b.machine.Run(ctx, supervisorPath, "drill", "--url", "http://"+address+"/", "--reload", w.deploy, "--times", strconv.Itoa(handoffs),
		"--rate", strconv.Itoa(rate), "--lead", "2s", "--gap", "1s", "--timeout", "5s", "--json", "-")
	if err != nil {
		return nil, err
	}
	var rep drill.Report
	if err := json.Unmarshal([]byte(r.Stdout), &rep); err != nil {
		return nil, fmt.Errorf("the drill's report: %w: %s", err, r)
	}
	return &rep, nil
}

// full measures how many requests a second come through when clients do not pause.
func (b *bench) full(ctx context.Context) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := b.machine.NetworkCommand(ctx, self)
	cmd.Env = append(os.Environ(), loadEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("measure throughput: %w", err)
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// runFull is the client of full. It prints how many requests a second were answered.
func runFull(ctx context.Context) error {
	client, err := load.Start(ctx, load.Config{Address: address, KeepAlive: true, Workers: fullWorkers, Duration: full, VersionHeader: "X-Pid"})
	if err != nil {
		return err
	}
	<-client.Done()
	fmt.Println(float64(client.Stop().Count(load.OK)) / full.Seconds())
	return nil
}

// resident is the resident memory, in KiB, of the processes whose command lines match.
func (b *bench) resident(ctx context.Context, pattern string) (int, error) {
	out, err := b.machine.Output(ctx, "sh", "-c", `for p in $(pgrep -f -- "$1"); do [ $p = $$ ] || sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$p/status; done`, "sh", pattern)
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, field := range strings.Fields(out) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
