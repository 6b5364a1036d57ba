package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/drill"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// drillFlags is what the user says beside drill.Config itself.
type drillFlags struct {
	drill.Config
	data, send, expect string
	headers            []string
	only               string
	reload             string
	to                 target
	executed           string
	json, html         string
}

func drillCommand() *cobra.Command {
	var f drillFlags
	cmd := &cobra.Command{
		Use:   "drill --url URL --reload COMMAND",
		Short: "Load a service while it is deployed, and judge the deploy",
		Long: `Sends requests at a constant rate, half of them on new connections and half on kept-alive ones, none of
them twice, runs the reload command meanwhile, and says what became of every request: failures by kind, and
latency, from when each request was due, in the disturbed time around the handoffs and in the calm time. It
works with any service and any way to deploy.

When a handoff happened it sees in the status of the supervisor whose socket the URL leads to, or else in the
answers: a version or pid that is new or gone, in the headers X-Version and X-Pid or as --version-body finds it.

Verdicts: clean; lost: requests failed; masked: none failed, but some were sent a second time or held, as a
retrying proxy does; inconclusive: no handoff happened, no request was under way in it, or this machine was
too busy to tell.

  zddsupervisor drill --url http://127.0.0.1:8080/ --reload 'systemctl reload app' --times 5 --html drill.html

Exit status: 0 clean; 1 the report could not be written; 2 wrong usage, or the service does not answer: nothing was
done; 3 the supervisor that was named was not reached; 4 inconclusive; 5 lost or masked.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	return cmd
}

// add makes the flags.
func (f *drillFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.URL, "url", "", "where to: http://, https://, tcp://HOST:PORT or unix:///PATH (the last two without HTTP)")
	flags.StringVar(&f.reload, "reload", "", "the shell command that deploys; $DRILL_HANDOFF counts from 1 (default: ask the supervisor)")
	flags.IntVar(&f.Times, "times", 1, "how often to deploy")
	flags.Float64Var(&f.Rate, "rate", 200, fmt.Sprintf("requests a second, at most %d", drill.MaxRate))
	flags.StringVar(&f.only, "only", "", "use \"new\" connections alone, or \"kept\"-alive ones (default: half and half)")
	flags.IntVar(&f.Connections, "connections", 20, "kept-alive connections to use in turn; more are opened while all are busy")
	flags.DurationVar(&f.Timeout, "timeout", 10*time.Second, "how long a request may take")
	flags.StringVar(&f.Unix, "unix", "", "speak HTTP on this unix socket, a path or @name")
	flags.BoolVar(&f.HTTP2, "http2", false, "speak HTTP/2; without TLS with prior knowledge")
	flags.BoolVar(&f.Insecure, "insecure", false, "do not verify the service's certificate")
	flags.StringVar(&f.CA, "ca", "", "trust the certificates in this PEM file instead of the system's")
	flags.StringVar(&f.ServerName, "server-name", "", "whose certificate it must be, instead of the URL's host")
	flags.BoolVar(&f.AllowRemote, "allow-remote", false, "allow an address that is not this machine's loopback")
	flags.StringVar(&f.Method, "method", "", "the request's method (default GET, with --data POST)")
	flags.StringVar(&f.data, "data", "", "the request's body, or @FILE; {id} in it, in the URL's path and in headers is the request's id")
	flags.StringArrayVar(&f.headers, "header", nil, "a header \"Name: value\"; repeats")
	flags.StringVar(&f.IDHeader, "id-header", "X-Request-Id", "the header with the request's unique id")
	flags.StringVar(&f.send, "send", "", "what to send on a tcp:// or unix:// connection; \\n and \\r are line ends")
	flags.StringVar(&f.expect, "expect", "", "what the answer on it must contain")
	flags.StringVar(&f.VersionHeader, "version-header", "X-Version", "the answer's header that tells the version")
	flags.StringVar(&f.PIDHeader, "pid-header", "X-Pid", "the answer's header that tells the process")
	flags.StringVar(&f.VersionBody, "version-body", "", "a regular expression whose first group, in the answer, is the version")
	flags.BoolVar(&f.TrustCommand, "trust-command", false, "take a reload command that succeeds for a handoff where nothing else tells of one")
	flags.StringVar(&f.executed, "executed", "", "a log file or URL that has the id of each request that the service executed, one a line")
	flags.DurationVar(&f.Lead, "lead", 5*time.Second, "calm time before the first deploy")
	flags.DurationVar(&f.Gap, "gap", 3*time.Second, "calm time after each")
	flags.DurationVar(&f.Settle, "settle", 30*time.Second, "how long to wait for the old version's end, where a supervisor tells of it")
	flags.DurationVar(&f.Limit, "limit", 5*time.Minute, fmt.Sprintf("end after this time, at most %s", drill.MaxTime))
	flags.DurationVar(&f.Tolerate, "tolerate", 500*time.Millisecond, "how much longer than in calm time requests may be held")
	flags.StringVar(&f.json, "json", "", "write the report as JSON to this file, or with \"-\" to standard output instead of the text")
	flags.StringVar(&f.html, "html", "", "write the report as a page to this file")
	f.to.addFlags(cmd)
}

// errVerdict is a verdict that is not clean.
type errVerdict struct{ report *drill.Report }

func (e errVerdict) Error() string { return string(e.report.Verdict) + ": " + e.report.Reason }

// status is the exit status that goes with it.
func (e errVerdict) status() int {
	if e.report.Verdict == drill.Inconclusive {
		return exitInconclusive
	}
	return exitLost
}

func (f *drillFlags) run(cmd *cobra.Command) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program
	if err := errors.Join(noZeros(cmd), f.understand(ctx)); err != nil {
		return usageError{err}
	}
	if err := f.findSupervisor(ctx); err != nil {
		return err
	}
	if err := f.findReload(); err != nil {
		return usageError{err}
	}
	live := newDrillProgress(cmd.ErrOrStderr())
	f.Progress = live.show
	rep, err := drill.Run(ctx, f.Config)
	live.end()
	if err != nil {
		return usageError{err}
	}
	if err := f.write(cmd, rep); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if rep.Verdict != drill.Clean {
		return errVerdict{rep}
	}
	return nil
}

// noZeros refuses a figure of 0, which stands for the default in the configuration.
func noZeros(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if text := flag.Value.String(); err == nil && (text == "0" || text == "0s") {
			err = fmt.Errorf("--%s is 0, and must be more; without it, it is %s", flag.Name, flag.DefValue)
		}
	})
	return err
}

// understand turns flags into the configuration.
func (f *drillFlags) understand(ctx context.Context) error {
	if f.URL == "" {
		return errors.New("--url says where to send requests, and is missing; see zddsupervisor drill --help")
	}
	switch f.only {
	case "":
	case "new":
		f.NewOnly = true
	case "kept":
		f.KeptOnly = true
	default:
		return fmt.Errorf("--only is \"new\" or \"kept\", and not %q", f.only)
	}
	f.Header = http.Header{}
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return fmt.Errorf("--header is \"Name: value\", and not %q", h)
		}
		f.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	f.Body = []byte(f.data)
	if path, ok := strings.CutPrefix(f.data, "@"); ok {
		var err error
		if f.Body, err = os.ReadFile(path); err != nil {
			return fmt.Errorf("--data: %w", err)
		}
	}
	lines := strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\\`, `\`)
	f.Send, f.Expect = []byte(lines.Replace(f.send)), []byte(lines.Replace(f.expect))
	for flag, path := range map[string]string{"html": f.html, "json": strings.TrimPrefix(f.json, "-")} {
		if path == "" {
			continue
		}
		// Better now than after the run.
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			return fmt.Errorf("--%s %s cannot be written: there is no directory %s", flag, path, filepath.Dir(path))
		}
	}
	if f.executed != "" {
		executed, err := newExecutedSource(ctx, f.executed)
		if err != nil {
			return fmt.Errorf("--executed: %w", err)
		}
		f.Executed = executed.read
	}
	return nil
}

// findSupervisor finds the supervisor that is named, or else the one whose socket the URL leads to, if there is one.
func (f *drillFlags) findSupervisor(ctx context.Context) error {
	if f.to.name != "" || f.to.path != "" {
		client, err := f.to.client()
		if err == nil {
			_, err = client.Status(ctx)
		}
		f.Supervisor = client
		return err
	}
	for _, base := range runtimeBases() {
		paths, err := filepath.Glob(filepath.Join(base, "*", control.SocketName))
		if err != nil {
			return err
		}
		for _, path := range paths {
			client := control.NewClient(path)
			st, err := client.Status(ctx)
			if err != nil {
				continue // somebody else's, or nobody there
			}
			var sockets []string
			for _, s := range st.Sockets {
				sockets = append(sockets, s.Address)
			}
			serves, err := f.ServedBy(ctx, sockets)
			if err != nil {
				return usageError{err}
			}
			if serves {
				f.Supervisor = client
				return nil
			}
		}
	}
	return nil
}

// findReload decides how to deploy.
func (f *drillFlags) findReload() error {
	switch {
	case f.reload != "":
		f.Reload = shellReload(f.reload)
	case f.Supervisor != nil:
		f.Reload = func(ctx context.Context, _ int) (string, error) {
			_, err := f.Supervisor.Reload(ctx, 0, func(upgrade.Progress) {})
			return "", err
		}
	default:
		return errors.New("--reload says how to deploy, and is missing; a supervisor that serves this URL would be asked, but none is found")
	}
	return nil
}

// write writes the report as asked. What cannot be written keeps nothing else from being.
func (f *drillFlags) write(cmd *cobra.Command, rep *drill.Report) error {
	out := cmd.OutOrStdout()
	var errs []error
	if f.json == "-" {
		errs = append(errs, rep.WriteJSON(out))
	} else {
		_, colors := terminalWidth(out)
		errs = append(errs, rep.WriteText(out, colors && os.Getenv("NO_COLOR") == ""))
	}
	for _, to := range []struct {
		path  string
		write func(io.Writer) error
	}{{f.html, rep.WriteHTML}, {strings.TrimPrefix(f.json, "-"), rep.WriteJSON}} {
		if to.path == "" {
			continue
		}
		err := writeFile(to.path, to.write)
		errs = append(errs, err)
		if err == nil && f.json != "-" {
			fmt.Fprintf(out, "written: %s\n", to.path)
		}
	}
	return errors.Join(errs...)
}

func writeFile(path string, write func(io.Writer) error) error {
	w, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(w), w.Close())
}
