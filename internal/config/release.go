package config

import "github.com/zddsupervisor/zddsupervisor/internal/releases"

// ErrRelease is returned where the current release cannot be told.
var ErrRelease = releases.ErrCurrent

// Managed reports whether there are releases.
func (r Releases) Managed() bool { return r.Directory != "" && r.Current != "" }

// Dir returns where they lie.
func (r Releases) Dir() releases.Dir { return releases.Dir{Directory: r.Directory, Link: r.Current} }

// Release returns the name of the release that Releases.Current points to now,
// or "" where releases are not managed. Errors wrap ErrRelease.
func (c *Config) Release() (string, error) {
	if !c.Releases.Managed() {
		return "", nil
	}
	return c.Releases.Dir().Current()
}
