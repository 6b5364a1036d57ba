package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/history"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// historyRows is how many handoffs are shown where nobody says otherwise.
const historyRows = 20

func historyCommand() *cobra.Command {
	var to target
	var directory string
	var last int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Show the handoffs that there have been",
		Long: `Shows when each handoff was, who had asked for it, from which release and generation to which, how it ended
and why, and what was still open or had to be killed behind it. The newest is the last. With --json it prints
one object a line, with the time that each step took; fields may be added to it.

It reads the files, and works while no supervisor runs. Where the supervisor has a state directory
that is not the usual one, and does not run, --state-directory says where.

Exit status: 0 done; 1 there is no history, or it cannot be read; 2 wrong usage.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if last < 0 {
				return usageError{fmt.Errorf("--number %d: it is less than nothing", last)}
			}
			dir, err := to.stateDirectory(cmd.Context(), directory)
			if err != nil {
				return err
			}
			entries, damaged, err := history.Read(dir)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return fmt.Errorf("there is no history in %s: no handoff has ended yet, or --state-directory has to name another directory", dir)
			case err != nil:
				return fmt.Errorf("the history in %s cannot be read: %w", dir, errors.Unwrap(err))
			}
			if last == 0 && !asJSON && !cmd.Flags().Changed("number") {
				last = historyRows
			}
			if last > 0 && len(entries) > last {
				entries = entries[len(entries)-last:]
			}
			if damaged > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "zddsupervisor: %s in %s cannot be understood, and left out\n", plural(damaged, "line"), filepath.Join(dir, history.FileName))
			}
			if !asJSON {
				printHistory(cmd.OutOrStdout(), entries)
				return nil
			}
			e := json.NewEncoder(cmd.OutOrStdout())
			for _, entry := range entries {
				if err := e.Encode(entry); err != nil {
					return err
				}
			}
			return nil
		},
	}
	to.addFlags(cmd)
	cmd.Flags().StringVar(&directory, "state-directory", "", "where the history lies (default: as the supervisor says, or the usual place for its name)")
	cmd.Flags().IntVarP(&last, "number", "n", 0, "show so many, 0 for all (default: 20, and all with --json)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything, one JSON object a line")
	return cmd
}

// stateDirectory finds the state directory of the supervisor that is meant: given is what --state-directory says, the
// supervisor knows, or it is where it would be by default.
func (t *target) stateDirectory(ctx context.Context, given string) (string, error) {
	if given != "" {
		return given, nil
	}
	client, err := t.client()
	if err == nil {
		st, err := client.Status(ctx)
		switch {
		case err == nil && st.StateDirectory != "":
			return st.StateDirectory, nil
		case err != nil && t.path != "":
			return "", err
		}
	} else if !errors.Is(err, control.ErrNotRunning) {
		return "", err
	}
	var found []string
	for _, base := range stateBases() {
		files, err := filepath.Glob(filepath.Join(base, cmp.Or(t.name, "*"), history.FileName))
		if err != nil {
			return "", err
		}
		found = append(found, files...)
	}
	switch {
	case len(found) == 1:
		return filepath.Dir(found[0]), nil
	case len(found) > 1:
		var names []string
		for _, path := range found {
			names = append(names, filepath.Base(filepath.Dir(path)))
		}
		return "", usageError{fmt.Errorf("there are several histories (%s); name one with --name", strings.Join(names, ", "))}
	}
	return "", fmt.Errorf("there is no history of %s below %s; say where it is with --state-directory",
		cmp.Or(t.name, "any supervisor"), strings.Join(stateBases(), " or "))
}

// stateBases are the directories below which supervisors have their state directories.
func stateBases() []string {
	var bases []string
	if os.Geteuid() != 0 {
		state := os.Getenv("XDG_STATE_HOME")
		if home := os.Getenv("HOME"); !filepath.IsAbs(state) && filepath.IsAbs(home) {
			state = filepath.Join(home, ".local/state")
		}
		if filepath.IsAbs(state) {
			bases = append(bases, filepath.Join(state, "zddsupervisor"))
		}
	}
	return append(bases, "/var/lib/zddsupervisor")
}

// printHistory prints handoffs for a person.
func printHistory(out io.Writer, entries []history.Entry) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHEN\tHANDOFF\tKIND\tRELEASE\tGENERATION\tOUTCOME\tTOOK\tBY")
	for _, e := range entries {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Began.Local().Format("2006-01-02 15:04:05"), e.Handoff, dash(string(e.Kind)),
			fit(fromTo(e.FromRelease, e.ToRelease), 0), fromTo(generation(e.From), generation(e.To)), e.Outcome, round(e.Took), fit(dash(strings.Join(e.By, ", ")), 0))
	}
	w.Flush()
	for _, e := range entries {
		for _, line := range remarks(e) {
			fmt.Fprintf(out, "handoff %d: %s\n", e.Handoff, fit(line, 0))
		}
	}
}

// remarks are what does not fit into a table.
func remarks(e history.Entry) (lines []string) {
	if e.Reason != "" {
		lines = append(lines, fmt.Sprintf("failed at step %s: %s", e.Phase, e.Reason))
	}
	for _, o := range e.Unsettled {
		lines = append(lines, fmt.Sprintf("socket %s was not quiet in time: connections %s", o.Socket, o.Describe()))
	}
	if r := e.Replaced; r != nil && r.Killed > 0 {
		lines = append(lines, fmt.Sprintf("generation %d was killed after %s: %s left", r.Generation, round(r.Took), plural(r.Killed, "process")))
	}
	if g := e.Ended; g != nil && g.Role == upgrade.RoleCrashed {
		text := fmt.Sprintf("generation %d ended by itself, %s later (%s)", g.Generation, round(g.Began.Sub(e.Began.Add(e.Took)).Round(time.Millisecond)), g.Exit)
		if g.Probation {
			text += ", within its probation"
		}
		lines = append(lines, text)
	}
	for _, h := range e.Hooks {
		if h.Error != "" {
			lines = append(lines, h.Error)
		}
	}
	return lines
}

// fromTo writes a change.
func fromTo(from, to string) string {
	switch {
	case from == to || from == "":
		return dash(to)
	case to == "":
		return from
	}
	return from + " -> " + to
}

func generation(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// plural counts things.
func plural(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "s"):
		return fmt.Sprintf("%d %ses", n, thing)
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
