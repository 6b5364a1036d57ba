package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// A site has releases of the testservice, and a link, current, to one of them.
type site struct {
	t   *testing.T
	dir string
}

// newSite makes one with these releases, of which the first is current. All of them are good.
func newSite(t *testing.T, releases ...string) *site {
	t.Helper()
	p := &site{t, shortDir(t)}
	if err := os.Mkdir(filepath.Join(p.dir, "releases"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range releases {
		p.release(name)
	}
	if err := os.Symlink("releases/"+releases[0], p.current()); err != nil { // relative, and so it has to stay
		t.Fatal(err)
	}
	return p
}

func (p *site) current() string { return filepath.Join(p.dir, "current") }

func (p *site) path(release string) string { return filepath.Join(p.dir, "releases", release) }

// release makes a release of the testservice, with these flags.
func (p *site) release(name string, flags ...string) {
	p.t.Helper()
	p.build(p.path(name), name, flags...)
}

// build makes what is in a release, anywhere.
func (p *site) build(dir, version string, flags ...string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		p.t.Fatal(err)
	}
	text := fmt.Sprintf("#!/bin/sh\nexec %s -version=%s -serve=http %s\n", testservice, version, strings.Join(flags, " "))
	program := filepath.Join(dir, "bin", "app")
	if err := os.WriteFile(program+".new", []byte(text), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(program+".new", program); err != nil {
		p.t.Fatal(err)
	}
}

// configuration runs what is current, with this TOML too.
func (p *site) configuration(more string, keys ...string) configuration {
	return configuration{
		command: []string{filepath.Join(p.current(), "bin", "app")},
		more:    fmt.Sprintf("directory = %q\n%s\n", p.current(), more),
		sockets: fmt.Sprintf("[releases]\ndirectory = %q\ncurrent = %q\n%s\n", filepath.Join(p.dir, "releases"), p.current(), strings.Join(keys, "\n")) + steeredSocket,
	}
}

// pointsTo fails the test if the link is not the relative one to this release.
func (p *site) pointsTo(release string) {
	p.t.Helper()
	if got, err := os.Readlink(p.current()); got != "releases/"+release || err != nil {
		p.t.Errorf("current points to %q, %v; want releases/%s", got, err, release)
	}
}

// releases lists those that are there.
func (p *site) releases() (names []string) {
	p.t.Helper()
	entries, err := os.ReadDir(filepath.Join(p.dir, "releases"))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// deploy runs deploy or rollback with these arguments.
func (s *supervisor) deploy(args ...string) (status int, stdout, stderr string) {
	s.t.Helper()
	return command(s.t, append(args, "--control", s.control())...)
}

// mustDeploy fails the test if that fails.
func (s *supervisor) mustDeploy(args ...string) (stdout string) {
	s.t.Helper()
	status, stdout, stderr := s.deploy(args...)
	if status != 0 {
		s.t.Fatalf("%q: exit status %d\n%s%s", args, status, stdout, stderr)
	}
	return stdout
}

// mustNotDeploy fails the test if that does not fail with this status and in one sentence with these parts.
func (s *supervisor) mustNotDeploy(want int, parts []string, args ...string) {
	s.t.Helper()
	status, stdout, stderr := s.deploy(args...)
	if status != want || strings.Count(stderr, "\n") != 1 {
		s.t.Errorf("%q: exit status %d, want %d, with one sentence:\n%s%s", args, status, want, stdout, stderr)
	}
	for _, part := range parts {
		if !strings.Contains(stderr, part) {
			s.t.Errorf("%q: %q is not in %s", args, part, stderr)
		}
	}
	for _, bad := range []string{"goroutine", "*errors", "errno", "%!", "<nil>"} {
		if strings.Contains(stderr, bad) {
			s.t.Errorf("%q: %s", args, stderr)
		}
	}
}

// runs waits until this release is live and no other generation is there.
func (s *supervisor) runs(release string) {
	s.t.Helper()
	s.until("release "+release, func(st *control.Status) bool {
		g := live(st)
		return g != nil && g.Release == release && len(st.Generations) == 1 && st.Current == nil
	})
}

// mustLoseNothing ends a load.
func mustLoseNothing(t *testing.T, client *load.Client) {
	t.Helper()
	if result := client.Stop(); result.Failed() > 0 {
		t.Errorf("%s", describeLoad(result))
	} else {
		t.Logf("%s", describeLoad(result))
	}
}

// eventually waits until something holds that nothing tells of.
func (s *supervisor) eventually(what string, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("not seen: %s", what)
		}
	}
}
