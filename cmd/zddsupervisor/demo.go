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
	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

func demoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "See it work: a service under load, handed off several times, once to a broken version",
		Long: `Starts a supervisor with a small built-in service on a free port of 127.0.0.1, lets clients
send requests to it (each on a new connection, without a retry), hands off to new versions
meanwhile, one of them broken, and says what became of every request. Takes a few seconds,
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

	fmt.Fprintf(out, "v1 serves on %s. 20 clients send requests, each on a new connection, none of them retries.\n\n", address)
	clients, err := load.Start(ctx, load.Config{Address: address, Duration: time.Minute})
	if err != nil {
		return err
	}
	if err := clients.Version(ctx, "v1"); err != nil {
		return err
	}
	var handoffs []load.Interval
	for _, v := range []demoVersion{{name: "v2"}, {name: "v3"}, {name: "v4", broken: true}, {name: "v5"}, {name: "v6"}} {
		if err := configure(v); err != nil {
			return err
		}
		began := time.Now()
		_, err := supervisor.client.Reload(ctx, 0, func(upgrade.Progress) {})
		took := round(time.Since(began))
		var failed *upgrade.HandoffError
		switch {
		case errors.As(err, &failed) && v.broken:
			fmt.Fprintf(out, "  deploy %s   (broken on purpose) failed after %s: %s\n              the old version serves on\n", v.name, took, failed.Record.Reason)
			continue
		case err != nil:
			return err
		}
		handoffs = append(handoffs, load.Interval{From: began, To: time.Now()})
		if err := clients.Version(ctx, v.name); err != nil {
			return fmt.Errorf("no answer came from %s: %w", v.name, err)
		}
		fmt.Fprintf(out, "  deploy %s   live after   %s\n", v.name, took)
	}
	result := clients.Stop()
	fmt.Fprintf(out, "\n%s\n", strings.TrimSpace(result.String()))
	verdict := result.Judge(handoffs)
	fmt.Fprintf(out, "%s\n", verdict)
	if verdict.Verdict != load.Clean {
		return errors.New("the demo did not go as it should")
	}
	return nil
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
		if err == nil && anyLive(st.Generations) && len(st.Sockets) == 1 {
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
