package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrRelease is returned where the current release cannot be told.
var ErrRelease = errors.New("the current release cannot be told")

// Release returns the name of the release that Releases.Current points to now,
// or "" where releases are not managed. Errors wrap ErrRelease.
func (c *Config) Release() (string, error) {
	if c.Releases == (Releases{}) {
		return "", nil
	}
	link := c.Releases.Current
	target, err := os.Readlink(link)
	if err != nil {
		if info, statErr := os.Lstat(link); statErr == nil && info.Mode()&os.ModeSymlink == 0 {
			return "", fmt.Errorf("%w: %s is not a symbolic link", ErrRelease, link)
		}
		return "", fmt.Errorf("%w: %s: %w", ErrRelease, link, cause(err))
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(link), target)
	}
	// The link itself says which release it is. What may be links are the
	// directories on the way.
	parent, err := filepath.EvalSymlinks(filepath.Dir(target))
	if err != nil {
		return "", fmt.Errorf("%w: %s points to %s: %w", ErrRelease, link, target, cause(err))
	}
	releases, err := filepath.EvalSymlinks(c.Releases.Directory)
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrRelease, c.Releases.Directory, cause(err))
	}
	if parent != releases {
		return "", fmt.Errorf("%w: %s points to %s, which is not in %s", ErrRelease, link, target, c.Releases.Directory)
	}
	if info, err := os.Stat(target); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%w: %s points to %s, which is not a directory", ErrRelease, link, target)
	}
	return filepath.Base(target), nil
}
