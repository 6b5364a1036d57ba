package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

func statusCommand() *cobra.Command {
	var to target
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show generations, sockets and the last handoff",
		Long: `Shows what the supervisor is doing. With --json it prints one object with a version; fields may
be added to it within a version.

Exit status: 0 done; 2 wrong usage; 3 no supervisor was reached.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := to.client()
			if err != nil {
				return err
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
			printStatus(cmd.OutOrStdout(), st, time.Now())
			return nil
		},
	}
	to.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything, as one JSON object")
	return cmd
}

// printStatus prints a status for a person.
func printStatus(out io.Writer, st *control.Status, now time.Time) {
	state := "is live"
	if len(st.Generations) == 0 || !anyLive(st.Generations) {
		state = "is DOWN"
	}
	if st.Current != nil {
		state += fmt.Sprintf("; handoff %d is at step %s", st.Current.Handoff, st.Phase)
		if st.Note != "" {
			state += " (" + st.Note + ")"
		}
	} else if st.Phase == upgrade.Stopping.String() {
		state = "is stopping"
	}
	if st.Waiting {
		state += ", and one more follows it"
	}
	fmt.Fprintf(out, "%s %s (supervisor pid %d, up %s)\n\n", st.Name, state, st.PID, round(now.Sub(st.Since)))

	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GENERATION\tRELEASE\tROLE\tPID\tPROCESSES\tCONNECTIONS\tAGE\tSTATUS")
	for _, g := range st.Generations {
		words := g.Status
		if words == "" {
			words = g.Because
		}
		if len(g.Deaf) > 0 {
			words = "nobody gets to it by " + strings.Join(g.Deaf, ", ")
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", g.Number, dash(g.Release), g.Role, g.PID, number(g.Processes),
			number(g.Connections), round(now.Sub(g.Started)), words)
	}
	fmt.Fprintln(w, "\nSOCKET\tADDRESS\tMODE\tQUEUE\tLIMIT\tNEW CONNECTIONS GO TO")
	for _, s := range st.Sockets {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, s.Address, s.Mode, number(s.Queue), number(s.QueueLimit), shares(s))
	}
	w.Flush()
	if l := st.Last; l != nil {
		fmt.Fprintf(out, "\nlast handoff: %d %s, %s ago, took %s", l.Handoff, l.Outcome, round(now.Sub(l.Began.Add(l.Took))), round(l.Took))
		if c := l.Carried; c != nil {
			fmt.Fprintf(out, "\n  kept-alive connections: %d carried over, %d requests passed on, %d lost, %d left to the old generation",
				c.Carried, c.Relayed, c.Lost, c.Found()-c.Carried)
		}
		if l.Reason != "" {
			fmt.Fprintf(out, "\n  at step %s: %s", l.Phase, l.Reason)
		}
		fmt.Fprintln(out)
	}
}

// shares says which generations get a socket's new connections.
func shares(s upgrade.SocketStatus) string {
	if s.Mode != fdpass.Steered {
		return "whoever accepts first"
	}
	var parts []string
	for _, seat := range s.Seats {
		switch {
		case seat.Share == 0:
		case seat.Generation == 0:
			parts = append(parts, "the next generation")
		case seat.Share == 1:
			parts = append(parts, fmt.Sprintf("generation %d", seat.Generation))
		default:
			parts = append(parts, fmt.Sprintf("generation %d (%.4g%%)", seat.Generation, seat.Share*100))
		}
	}
	return strings.Join(parts, ", ")
}

func anyLive(generations []upgrade.GenerationStatus) bool {
	for _, g := range generations {
		if g.Role == upgrade.RoleLive {
			return true
		}
	}
	return false
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// number prints a count, or that it is not known.
func number(n int) string {
	if n < 0 {
		return "?"
	}
	return strconv.Itoa(n)
}
