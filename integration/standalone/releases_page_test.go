package standalone

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
)

// A page has commands, indented by four blanks, and pieces of configuration.
type page struct {
	commands [][]string // by their words
	config   []string   // TOML
}

func readPage(t *testing.T, path string) (p page) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "```")
	for i, part := range parts {
		if rest, ok := strings.CutPrefix(part, "toml\n"); ok && i%2 == 1 {
			p.config = append(p.config, rest)
			continue
		}
		for line := range strings.Lines(part) {
			if command, ok := strings.CutPrefix(line, "    "); ok && !strings.HasPrefix(command, "/") {
				p.commands = append(p.commands, strings.Fields(command))
			}
		}
	}
	return p
}

// Every command of docs/releases.md does what the page says, one after the other.
func TestReleasesPage(t *testing.T) {
	t.Parallel()
	p := readPage(t, "../../docs/releases.md")
	dir := shortDir(t)
	here := strings.NewReplacer("/srv/app", dir, "127.0.0.1:8080", "127.0.0.1:0")
	site := &site{t, dir}
	site.build(filepath.Join(dir, "build"), "v41")
	if err := os.Rename(filepath.Join(dir, "build/bin/app"), filepath.Join(dir, "build/app")); err != nil {
		t.Fatal(err)
	}
	site.build(filepath.Join(dir, "build/v43"), "v43")
	site.build(filepath.Join(dir, "v44"), "v44")
	if out, err := exec.Command("tar", "-C", filepath.Join(dir, "v44"), "-czf", filepath.Join(dir, "app-v44.tar.gz"), ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	site.build(filepath.Join(dir, "releases/v42"), "v42")
	begin := slices.IndexFunc(p.commands, func(words []string) bool { return words[0] == "zddsupervisor" })
	for _, words := range p.commands[:begin] {
		c := exec.Command(words[0], strings.Fields(here.Replace(strings.Join(words[1:], " ")))...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", words, err, out)
		}
	}
	site.pointsTo("v41")

	// The pieces belong together, and are all right.
	all := filepath.Join(dir, "all.toml")
	if err := os.WriteFile(all, []byte(here.Replace(strings.Join(p.config, ""))), 0o600); err != nil {
		t.Fatal(err)
	}
	source := &config.Source{Path: all, WorkingDirectory: dir, Getenv: func(string) string { return dir }}
	if _, err := source.Load(); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("runtime-directory = %q\nstate-directory = %q\n%s", dir+"/run", dir+"/state", here.Replace(p.config[0]))
	s := start(t, configuration{whole: text, dir: dir})
	s.runs("v41")
	for i, want := range []string{"v42", "v43", "v44", "v43", "v41"} {
		words := p.commands[begin+i]
		if status, stdout, stderr := commandIn(t, dir, append(words[1:], "--control", s.control())...); status != 0 {
			t.Fatalf("%q: exit status %d\n%s%s", words, status, stdout, stderr)
		}
		s.runs(want)
		site.pointsTo(want)
	}
	looked := 0
	for _, words := range p.commands[begin+5:] {
		if words[1] != "history" {
			t.Errorf("%q was not run", words)
			continue
		}
		looked++
		if status, stdout, stderr := commandIn(t, dir, append(words[1:], "--control", s.control())...); status != 0 || !strings.Contains(stdout, "rollback") {
			t.Errorf("%q: exit status %d\n%s%s", words, status, stdout, stderr)
		}
	}
	if looked != 3 {
		t.Errorf("it was looked at the history %d times", looked)
	}
}
