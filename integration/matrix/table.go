package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// The marks between which the table is.
const (
	beginMark = "<!-- Made by: go run ./integration/matrix --write docs/services.md -->\n"
	endMark   = "<!-- The end of what was made. -->\n"
)

// writeTable puts the table into a page, or prints it.
func writeTable(page, remark string, rows rows) error {
	text := table(remark, rows)
	if page == "" {
		_, err := os.Stdout.WriteString(text)
		return err
	}
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(old), beginMark)
	_, after, ok2 := strings.Cut(rest, endMark)
	if !ok || !ok2 {
		return fmt.Errorf("%s has not the marks %q and %q", page, beginMark, endMark)
	}
	return os.WriteFile(page, []byte(before+beginMark+text+endMark+after), 0o644)
}

func table(remark string, rows rows) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
Requests that failed, of all requests during so many handoffs. Measured on %s, on %s. %s

| service | socket | handoffs | new, GET | new, POST | kept-alive, GET | kept-alive, POST |
|---|---|---|---|---|---|---|
`, time.Now().UTC().Format("2006-01-02"), thisMachine(), remark)
	for _, r := range rows {
		name := r.Service
		for _, w := range ways() {
			if !rows.have(r.Service, w) {
				continue
			}
			var line strings.Builder
			handoffs := 0
			for _, k := range []kind{{}, {post: true}, {keep: true}, {keep: true, post: true}} {
				text := "-"
				if c, ok := r.Cells[cellName(w, k)]; ok {
					handoffs = c.Handoffs
					text = fmt.Sprintf("%d of %d", c.Failed, c.Requests)
					if c.Failed > 0 {
						text = fmt.Sprintf("**%d** of %d", c.Failed, c.Requests)
					}
				}
				fmt.Fprintf(&line, " %s |", text)
			}
			fmt.Fprintf(&b, "| %s | %s | %d |%s\n", name, w.name, handoffs, line.String())
			name = ""
		}
	}
	return b.String() + "\n"
}

// thisMachine is what the figures depend on.
func thisMachine() string {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%d cores, Linux %s, in a namespace with Debian 13 (systemd 257)", runtime.NumCPU(), bytes.TrimSpace(kernel))
}
