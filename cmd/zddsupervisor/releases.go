package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/releases"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// managed is the upgrade.Releases of a configuration.
type managed struct {
	releases.Dir
	cfg *config.Config
}

// releasesOf returns the releases of a configuration; nil where they are not managed.
func releasesOf(cfg *config.Config) upgrade.Releases {
	if !cfg.Releases.Managed() {
		return nil
	}
	return managed{cfg.Releases.Dir(), cfg}
}

// Releases tells where releases lie, for whoever wants to install one.
func (i *incumbent) Releases(ctx context.Context) (*control.Releases, error) {
	r, err := i.MayDeploy(ctx)
	if err != nil {
		return nil, err
	}
	m := r.(managed) // there are no others
	return &control.Releases{Directory: m.Directory, Link: m.Link}, nil
}

// Fit looks whether a release is there, and has the program of the command, if that is one that lies in the releases.
func (m managed) Fit(name string) error {
	if err := m.Check(name); err != nil {
		return err
	}
	program, within := m.program(name)
	if !within {
		return nil
	}
	info, err := os.Stat(program)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("release %s cannot be started: there is no %s, which the command is; is it built?", name, program)
	case err != nil:
		return fmt.Errorf("release %s cannot be started: %s, which the command is, cannot be looked at: %w", name, program, errors.Unwrap(err))
	case info.IsDir():
		return fmt.Errorf("release %s cannot be started: %s, which the command is, is a directory", name, program)
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("release %s cannot be started: %s, which the command is, is not executable; chmod +x it", name, program)
	}
	return nil
}

// program returns the path of the command in a release, and whether it is in there.
func (m managed) program(name string) (path string, within bool) {
	argv, err := m.cfg.Values(1, name).Expand(m.cfg.Command[:1])
	if err != nil || !strings.Contains(argv[0], "/") {
		return "", false // it is looked for in the PATH of the service
	}
	path = argv[0]
	if !filepath.IsAbs(path) {
		path = strings.TrimSuffix(m.cfg.Directory, "/") + "/" + path
	}
	if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(m.Link, "/")+"/"); ok {
		return m.Path(name) + "/" + rest, true
	}
	return path, strings.HasPrefix(path, m.Path(name)+"/")
}

// Prune removes what is more than releases.keep.
func (m managed) Prune(protected []string) ([]string, error) {
	if m.cfg.Releases.Keep == 0 {
		return nil, nil
	}
	return m.Dir.Prune(m.cfg.Releases.Keep, protected)
}
