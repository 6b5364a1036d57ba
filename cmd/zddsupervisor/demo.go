package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/drill"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

func demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See it work: a service under load, handed off several times, once to a broken version",
		Long: `Starts a supervisor with a small built-in service on a free port of 127.0.0.1, and drills it: sends
requests (each on a new connection, without a retry), hands off to new versions meanwhile, one of
them broken, and says what became of every request. Takes a quarter of a minute,
needs no privileges, and leaves nothing behind.

Exit status: 0 every request was answered; 1 some were lost, or the demo could not run.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Whatever ends it early, what it has made is removed; a pipe that nobody reads is one such thing.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
			defer stop()
			return demo(ctx, cmd.OutOrStdout())
		},
	}
}

// demoVersion is one deploy of the demo.
type demoVersion struct {
	name   string
	broken bool
}

// demoConfig is the supervisor's configuration in the demo. The demo changes the version and asks for a handoff, as
// somebody would who deploys.
const demoConfig = `name = "demo"
command = [%q, "demo-service", "--version", %q, "--warm-up", "200ms", "--fail", %q]
runtime-directory = %q
state-directory = %q

[[socket]]
name = "http"
listen = "tcp://127.0.0.1:0"
`

func demo(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "zdd-demo-")
	if err != nil {
		return fmt.Errorf("make a directory for the demo: %w", err)
	}
	defer os.RemoveAll(dir)
	program, err := os.Executable()
	if err != nil {
		return err
	}
	configure := func(v demoVersion) error {
		fail := "0"
		if v.broken {
			fail = "3"
		}
		text := fmt.Sprintf(demoConfig, program, v.name, fail, dir, filepath.Join(dir, "state"))
		return os.WriteFile(filepath.Join(dir, "demo.toml"), []byte(text), 0o600)
	}
	if err := configure(demoVersion{name: "v1"}); err != nil {
		return err
	}
	supervisor, err := startDemoSupervisor(program, dir)
	if err != nil {
		return err
	}
	defer supervisor.stop()
	address, err := supervisor.waitLive(ctx)
	if err != nil {
		return err
	}

	fmt.Fprintf(out, "v1 serves on %s. 200 requests a second, each on a new connection, none of them sent twice.\n\n", address)
	d := demoDeploys{out: out, supervisor: supervisor, configure: configure}
	rep, err := drill.Run(ctx, drill.Config{
		URL: "http://" + address + "/", NewOnly: true, Supervisor: supervisor.client,
		Reload: d.next, Times: len(demoVersions), Lead: 1500 * time.Millisecond, Gap: 500 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprintln(out)
	if err := rep.WriteText(out, false); err != nil {
		return err
	}
	if rep.Busy {
		return errDemoBusy
	}
	if rep.Verdict != drill.Clean {
		return errors.New("the demo did not go as it should")
	}
	fmt.Fprintln(out, "\nThe same for your own service, however it is deployed: zddsupervisor drill --help")
	return nil
}

// errDemoBusy is no fault of the demo's.
var errDemoBusy = errors.New("this machine is too busy to judge the demo; run it again when less else runs here")

// demoVersions are what is deployed, one handoff after the other. A broken one is tried first where there is one.
var demoVersions = [...]struct{ broken, version string }{{"", "v2"}, {"", "v3"}, {"v4", "v5"}, {"", "v6"}}

// demoDeploys makes the demo's deploys.
type demoDeploys struct {
	out        io.Writer
	supervisor *demoSupervisor
	configure  func(demoVersion) error
}

// next makes the nth handoff.
func (d *demoDeploys) next(ctx context.Context, n int) (string, error) {
	v := demoVersions[n-1]
	if v.broken != "" {
		took, err := d.deploy(ctx, demoVersion{name: v.broken, broken: true})
		var failed *upgrade.HandoffError
		if !errors.As(err, &failed) {
			return "", fmt.Errorf("the broken version %s was not refused: %w", v.broken, err)
		}
		fmt.Fprintf(d.out, "  deploy %s   (broken on purpose) failed after %s: %s\n              the old version serves on\n", v.broken, took, failed.Record.Reason)
	}
	took, err := d.deploy(ctx, demoVersion{name: v.version})
	if err != nil {
		return "", err
	}
	fmt.Fprintf(d.out, "  deploy %s   live after   %s\n", v.version, took)
	return "", nil
}

func (d *demoDeploys) deploy(ctx context.Context, v demoVersion) (took time.Duration, err error) {
	if err := d.configure(v); err != nil {
		return 0, err
	}
	began := time.Now()
	_, err = d.supervisor.client.Reload(ctx, 0, func(upgrade.Progress) {})
	return round(time.Since(began)), err
}

// demoSupervisor is a supervisor in a process of its own, as in real life.
type demoSupervisor struct {
	cmd    *exec.Cmd
	client *control.Client
	log    string // its output
}

func startDemoSupervisor(program, dir string) (*demoSupervisor, error) {
	s := &demoSupervisor{client: control.NewClient(filepath.Join(dir, control.SocketName)), log: filepath.Join(dir, "log")}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd = exec.Command(program, "run", "--config", filepath.Join(dir, "demo.toml"))
	s.cmd.Stdout, s.cmd.Stderr = log, log
	// Ctrl-C is for the demo, which ends its supervisor in order.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a supervisor: %w", err)
	}
	return s, nil
}

// waitLive blocks until the first generation serves, and returns its address.
func (s *demoSupervisor) waitLive(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		st, err := s.client.Status(ctx)
		if err == nil && liveOf(st) != nil && len(st.Sockets) == 1 {
			return strings.TrimPrefix(st.Sockets[0].Address, "tcp://"), nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			text, _ := os.ReadFile(s.log)
			return "", fmt.Errorf("the supervisor's service did not start: %w\n%s", ctx.Err(), text)
		}
	}
}

// stop ends the supervisor and waits for it.
func (s *demoSupervisor) stop() {
	s.cmd.Process.Signal(syscall.SIGTERM)
	s.cmd.Wait()
}
