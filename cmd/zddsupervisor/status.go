package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// defaultWatch is how often --watch asks.
const defaultWatch = time.Second

func statusCommand() *cobra.Command {
	var to target
	var asJSON bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "status [--watch [TIME]]",
		Short: "Show generations, sockets and the last handoff",
		Long: `Shows what the supervisor is doing: whether the service is live, and which release; what is under way;
generations with their connections, those that drain with the time that they have left; sockets with
their queues; and the last handoff.

With --watch it is shown again and again, every second or every TIME, until Ctrl-C: on a terminal in
place, else one below the other. A supervisor that goes away meanwhile is waited for.

With --json it is one object, with --watch one a line. docs/status.md has every field; fields may be
added to it within a version. Colors are for terminals, and not with NO_COLOR.

Exit status: 0 done; 2 wrong usage; 3 no supervisor was reached.`,
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("watch") || len(args) != 1 {
			return noArguments(cmd, args)
		}
		d, err := time.ParseDuration(args[0]) // "--watch 2s", which is no value for the flag
		if err != nil {
			return noArguments(cmd, args)
		}
		every = d
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("watch") && every <= 0 {
			return usageError{fmt.Errorf("--watch %s: the time must be more than nothing", every)}
		}
		client, err := to.client()
		if err != nil {
			return err
		}
		show := showStatus
		if asJSON {
			show = showJSON
		}
		if every > 0 {
			return watch(cmd.Context(), client, newScreen(cmd.OutOrStdout()), every, show)
		}
		st, err := client.Status(cmd.Context())
		if err != nil {
			return err
		}
		if asJSON {
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetIndent("", "  ")
			return e.Encode(st)
		}
		return printLines(cmd.OutOrStdout(), showStatus(newScreen(cmd.OutOrStdout()), st, nil, time.Now()))
	}
	to.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything, as one JSON object")
	cmd.Flags().DurationVar(&every, "watch", 0, "show it again every second, or every TIME, as in --watch=5s")
	cmd.Flags().Lookup("watch").NoOptDefVal = defaultWatch.String()
	return cmd
}

// A show is a way to show a status, in lines, or why there is none.
type show func(s screen, st *control.Status, asking error, now time.Time) []string

// showJSON shows a status as one line of JSON.
func showJSON(_ screen, st *control.Status, asking error, _ time.Time) []string {
	var what any = st
	if asking != nil {
		what = struct {
			Error string `json:"error"`
		}{asking.Error()}
	}
	text, err := json.Marshal(what)
	if err != nil {
		panic("a status is plain data: " + err.Error())
	}
	return []string{string(text)}
}

func printLines(out io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

// showStatus shows a status to a person: what is to be known first comes first.
func showStatus(s screen, st *control.Status, asking error, now time.Time) []string {
	width, _ := s.size()
	if asking != nil {
		return []string{s.paint(fit(asking.Error(), max(0, width-1)), red)}
	}
	// Not the last column, in which some terminals break the line.
	v := statusView{screen: s, width: max(0, width-1), now: now, st: st}
	v.state()
	v.underWay()
	v.generations()
	v.sockets()
	v.last()
	if st.Version > upgrade.StatusVersion {
		v.blank()
		v.text(yellow, fmt.Sprintf("The supervisor is newer than this program (status version %d, and not %d): it may tell more than is shown here.",
			st.Version, upgrade.StatusVersion))
	}
	return v.lines
}
