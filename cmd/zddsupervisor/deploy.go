package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/releases"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

func deployCommand() *cobra.Command {
	var to target
	var from string
	var again bool
	cmd := &cobra.Command{
		Use:   "deploy [flags] RELEASE",
		Short: "Make a release the current one and hand off to it",
		Long: `Makes releases.current point to a release, hands off to it, and waits as reload does. If the handoff
fails, the link points to the release before again. The link is replaced in one step.

With --from, a directory or a tar archive (plain or with gzip) is installed as a new release first, which appears
whole or not at all. Its name is the last part of the path, without .tar, .tar.gz or .tgz, unless RELEASE
says otherwise. What is installed stays, also if the handoff fails: try it again by its name.

Nothing is touched where the release is not there or has not the program of the command, where it is live
already (unless --again), where another handoff is under way, and where releases.current is no link into
releases.directory.

Exit status: 0 the release is live; 1 it was refused, or the handoff failed, with the reason: the old version
still serves; 2 wrong usage; 3 no supervisor was reached.`,
		Example: `  zddsupervisor deploy v42
  zddsupervisor deploy --from build/app-v42.tar.gz v42`,
		Args: oneRelease,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			switch {
			case len(args) > 0:
				name = args[0]
			case from == "":
				return usageError{errors.New("which release is to be deployed? name it, or install one with --from; see zddsupervisor deploy --help")}
			default:
				name = releases.NameOf(from)
			}
			if err := releases.CheckName(name); err != nil {
				return usageError{err}
			}
			client, err := to.client()
			if err != nil {
				return err
			}
			if from != "" {
				if err := installRelease(cmd.Context(), client, from, name, cmd.OutOrStdout()); err != nil {
					return err
				}
			}
			return deploy(cmd, client, upgrade.KindDeploy, name, again)
		},
	}
	to.addFlags(cmd)
	cmd.Flags().StringVar(&from, "from", "", "install this directory or tar archive as the release first")
	cmd.Flags().BoolVar(&again, "again", false, "deploy the release also if it is live")
	return cmd
}

// oneRelease is for commands that take at most one release.
func oneRelease(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("%s takes one release, but got %q; see %[1]s --help", cmd.CommandPath(), args)}
	}
	return nil
}

// installRelease installs a release, if it could be deployed then.
func installRelease(ctx context.Context, client *control.Client, from, name string, out io.Writer) error {
	where, err := client.Releases(ctx)
	if err != nil {
		return err
	}
	// Half of a release must not be left where somebody changes his mind.
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	began := time.Now()
	if err := (releases.Dir{Directory: where.Directory, Link: where.Link}).Install(ctx, from, name); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted: release %s is installed, and was not deployed; zddsupervisor deploy %[1]s does that", name)
	}
	p := newProgress(out)
	p.step(upgrade.Progress{Step: "install", Took: time.Since(began)})
	p.end()
	return nil
}

// deploy hands off to a release, and prints each step.
func deploy(cmd *cobra.Command, client *control.Client, kind upgrade.Kind, name string, again bool) error {
	err := follow(cmd, client, func(ctx context.Context, step func(upgrade.Progress)) (*upgrade.Record, error) {
		return client.Deploy(ctx, kind, name, again, step)
	})
	var failed *upgrade.HandoffError
	if errors.As(err, &failed) && failed.Record.From != 0 && serves(cmd.Context(), client, failed.Record.From) {
		fmt.Fprintf(cmd.OutOrStdout(), "generation %d%s serves on\n", failed.Record.From, inParentheses(failed.Record.FromRelease))
	}
	return err
}

// serves reports whether a generation is the live one, as far as the supervisor says.
func serves(ctx context.Context, client *control.Client, generation int) bool {
	st, err := client.Status(ctx)
	return err == nil && slices.ContainsFunc(st.Generations, func(g upgrade.GenerationStatus) bool {
		return g.Number == generation && g.Role == upgrade.RoleLive
	})
}
