package child_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// What Examine finds is what Start says.
func TestExamine(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	dir := t.TempDir()
	for name, f := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"script": {"#!/bin/sh\nexit 0\n", 0o755}, "plain": {"#!/bin/sh\n", 0o644}, "empty": {"", 0o755},
		"text": {"hello\n", 0o755}, "lost": {"#!/no/such/interpreter\n", 0o755}, "dos": {"#!/bin/sh\r\n", 0o755},
	} {
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name), []byte(f.text), f.mode), os.Chmod(filepath.Join(dir, name), f.mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	at := func(name string) child.Command { return child.Command{Path: filepath.Join(dir, name)} }
	for name, c := range map[string]child.Command{
		"script": at("script"), "plain": at("plain"), "empty": at("empty"), "text": at("text"), "lost": at("lost"), "dos": at("dos"),
		"link": at("link"), "missing": at("missing"), "directory": at(""), "below a file": at("text/x"),
		"in no PATH":        {Path: "no-such-program", Env: []string{"PATH=/bin"}},
		"in PATH":           {Path: "true", Env: []string{"PATH=/bin:/usr/bin"}},
		"relative":          {Path: "./script", Dir: dir},
		"no directory":      {Path: "/bin/true", Dir: filepath.Join(dir, "missing")},
		"file as directory": {Path: "/bin/true", Dir: filepath.Join(dir, "text")},
	} {
		found := child.Examine(c)
		p, err := r.Start(t.Context(), c)
		if err == nil {
			<-p.Done()
			p.Close()
		}
		var said, was *child.ExecError
		if errors.As(found, &said) != errors.As(err, &was) || said != nil && said.Error() != was.Error() {
			t.Errorf("%s: found %v, and Start says %v", name, found, err)
		}
	}
}

// The user of the service counts, not the one who looks.
func TestExamineAsAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("to become another user takes root")
	}
	r := newReaper(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "private", "script")
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Dir(program), 0o700), os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	nobody := &child.Credential{UID: 65534, GID: 65534}
	for name, c := range map[string]child.Command{
		"program":   {Path: program, Credential: nobody},
		"directory": {Path: "/bin/true", Dir: filepath.Dir(program), Credential: nobody},
	} {
		found := child.Examine(c)
		_, err := r.Start(t.Context(), c)
		if found == nil || err == nil || found.Error() != err.Error() {
			t.Errorf("%s: found %v, and Start says %v", name, found, err)
		}
	}
}
