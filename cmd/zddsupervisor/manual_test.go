package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each command that the help names has a page, which names each of its flags.
func TestManual(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if status, _, stderr := oneCommand(t, "manual", dir); status != 0 {
		t.Fatal(stderr)
	}
	page := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	_, help, _ := oneCommand(t, "--help")
	_, list, _ := strings.Cut(help, "Available Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	commands := 0
	for line := range strings.Lines(list) {
		command := strings.Fields(line)[0]
		if command == "help" {
			continue
		}
		commands++
		text := page("zddsupervisor-" + command + ".1")
		_, help, _ := oneCommand(t, command, "--help")
		_, flags, _ := strings.Cut(help, "\nFlags:\n")
		for word := range strings.FieldsSeq(flags) {
			if strings.HasPrefix(word, "--") && strings.Contains(help, "  "+word+" ") && !strings.Contains(text, `\fB`+strings.ReplaceAll(word, "-", `\-`)+`\fR`) {
				t.Errorf("the page of %s lacks %s", command, word)
			}
		}
		// Their texts go by what internal/manual looks for.
		if strings.Contains(help, "Exit status:") && !strings.Contains(text, ".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\n") {
			t.Errorf("the page of %s has no exit statuses:\n%s", command, text)
		}
	}
	if commands < 10 {
		t.Errorf("the help names %d commands:\n%s", commands, help)
	}
	if page("zddsupervisor.1") == "" || page("zddsupervisor.toml.5") == "" {
		t.Error("a page is empty")
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	_, help, _ := oneCommand(t, "--help")
	if !strings.Contains(help, "completion ") {
		t.Errorf("the help does not name it:\n%s", help)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		status, script, stderr := oneCommand(t, "completion", shell)
		if status != 0 || !strings.Contains(script, "__complete") {
			t.Errorf("%s: exit status %d: %s", shell, status, stderr)
		}
		program, err := exec.LookPath(shell)
		if err != nil {
			continue // bash is nearly everywhere
		}
		check := exec.Command(program, "-n")
		check.Stdin = strings.NewReader(script)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%s does not read it: %v\n%s", shell, err, out)
		}
	}
	for _, args := range [][]string{{}, {"powershell"}, {"bash", "zsh"}} {
		if status, _, stderr := oneCommand(t, append([]string{"completion"}, args...)...); status != exitUsage || !strings.Contains(stderr, "bash, zsh and fish") {
			t.Errorf("%q: exit status %d: %s", args, status, stderr)
		}
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"st"}, "status\t"},
		{[]string{"completion", ""}, "fish\n"},
		{[]string{"run", "--ready-by", ""}, "notify\nfd\nhttp\naccept\nexec\neinhorn\ndelay\n:4\n"},
		{[]string{"run", "--mode", ""}, "steered\nshared\n:4\n"},
		{[]string{"run", "--drain-signal", "SIGQ"}, "SIGTERM\n"},
		{[]string{"run", "--config", ""}, "toml\n:8\n"},
		{[]string{"run", "--handoff-k"}, "--handoff-keepalive"},
		{[]string{"run", "--drain-timeout", ""}, ":4\n"},
		{[]string{"status", "--name", ""}, ":4\n"},
	} {
		if _, got, _ := oneCommand(t, append([]string{"__complete"}, tc.args...)...); !strings.Contains(got, tc.want) {
			t.Errorf("%q: got %q, want %q", tc.args, got, tc.want)
		}
	}
}
