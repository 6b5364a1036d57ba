package integration_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/pages"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
)

const (
	// readersService is what pages call the reader's own service.
	readersService = "/srv/app/bin/app"
	// readersHome is where they type, and have the package.
	readersHome = "/root"
	tutorial    = "tutorial.md"
)

// TestPages does what the pages of documentation have their readers do, each on a machine of its own that has the package, a
// service, and what the test machines have anyway.
func TestPages(t *testing.T) {
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	deb, err := programs.Package(context.Background(), "1.0-1") // not the context of whichever test comes first
	if err != nil {
		t.Fatal(err)
	}
	service, err := programs.Service(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	done := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := pages.Steps(string(text))
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if len(steps) == 0 {
			continue
		}
		done++
		t.Run(strings.TrimSuffix(filepath.Base(file), ".md"), func(t *testing.T) {
			if filepath.Base(file) != tutorial { // whose drill judges a deploy by its slowest requests: it has the machine for itself
				t.Parallel()
			}
			m := boot(t, rootfs.Trixie())
			path := filepath.Join(readersHome, filepath.Base(deb))
			m.install(deb, path)
			if filepath.Base(file) != tutorial { // which begins with that
				m.must("dpkg", "--install", path)
			}
			m.install(service, readersService)
			for _, step := range steps {
				if !m.follow(filepath.Base(file), step) {
					break // what comes next builds on it
				}
			}
		})
	}
	if done == 0 {
		t.Error("no page has its reader do anything")
	}
}

// follow does one step of a page, and reports whether it went as the page says.
func (m *testMachine) follow(page string, step pages.Step) bool {
	m.t.Helper()
	if step.File != "" {
		m.write(step.File, step.Text)
		return true
	}
	r := m.run("sh", "-e", "-c", "cd "+readersHome+"\n"+step.Text)
	ok := r.Status == step.Status
	for _, text := range step.Prints {
		ok = ok && strings.Contains(r.Stdout+r.Stderr, text)
	}
	if !ok {
		m.t.Errorf("%s, line %d: the script should end with %d and print %q:\n%s%s", page, step.Line, step.Status, step.Prints, step.Text, r)
	}
	return ok
}
