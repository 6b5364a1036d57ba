package upgrade

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of the state machine into docs/handoff.md")

const (
	tablePath  = "../docs/handoff.md"
	tableBegin = "<!-- table: go test ./upgrade -run TestDocumentedTable -update -->\n"
	tableEnd   = "<!-- end of table -->\n"
)

// The table in the documentation is made from the code, so that it cannot say anything else.
func TestDocumentedTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(tablePath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	_, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", tablePath)
	}
	want := before + tableBegin + table() + tableEnd + after
	if *update {
		if err := os.WriteFile(tablePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("the table in %s is not what the code does; run this test with -update", tablePath)
	}
}

func table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| state |")
	for e := Event(0); e < events; e++ {
		fmt.Fprintf(&b, " %s |", e)
	}
	fmt.Fprintf(&b, "\n|%s\n", strings.Repeat("---|", int(events)+1))
	everyState(func(s State) {
		fmt.Fprintf(&b, "| **%s** |", s)
		for e := Event(0); e < events; e++ {
			to, a := next(s, e)
			switch {
			case a == Illegal:
				fmt.Fprintf(&b, " ✗ |")
			case to == s:
				fmt.Fprintf(&b, " %s |", a)
			default:
				fmt.Fprintf(&b, " %s → %s |", a, to)
			}
		}
		fmt.Fprintln(&b)
	})
	return b.String()
}
