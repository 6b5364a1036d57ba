package releases

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A release is one that is there.
type release struct {
	name    string
	changed time.Time // its directory itself
}

// list returns all releases, the newest first.
func (d Dir) list() ([]release, error) {
	entries, err := os.ReadDir(d.Directory)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", d.Directory, cause(err))
	}
	var all []release
	for _, e := range entries {
		if !e.IsDir() || CheckName(e.Name()) != nil {
			continue
		}
		if info, err := e.Info(); err == nil { // else it is gone meanwhile
			all = append(all, release{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b release) int { return cmp.Or(b.changed.Compare(a.changed), strings.Compare(b.name, a.name)) })
	return all, nil
}

// Prune removes all but the newest keep releases, and returns the names of those that it has removed. It never removes one
// of protected, nor the one that the link points to, nor one that is newer than that: somebody may just have put it there, to be
// deployed next. They count among those that are kept. It blocks until all is removed, which can take long.
func (d Dir) Prune(keep int, protected []string) (removed []string, err error) {
	d.sweep()
	current, err := d.Current()
	if err != nil {
		return nil, err // what it would protect is not known
	}
	all, err := d.list()
	if err != nil {
		return nil, err
	}
	var errs []error
	old := slices.IndexFunc(all, func(r release) bool { return r.name == current })
	stays := func(i int, name string) bool { return i <= old || slices.Contains(protected, name) }
	kept := 0
	for i, r := range all {
		if stays(i, r.name) {
			kept++
		}
	}
	for i, r := range all {
		if stays(i, r.name) {
			continue
		}
		if kept < keep {
			kept++
			continue
		}
		// Somebody may have gone back to it just now.
		if now, err := d.Current(); err != nil || now == r.name {
			continue
		}
		if err := os.Rename(d.Path(r.name), d.Path(outgoing+r.name)); err != nil {
			errs = append(errs, fmt.Errorf("remove the release %s: %w", r.name, cause(err)))
			continue
		}
		removed = append(removed, r.name)
	}
	// Nobody finds them any more. The rest can take long.
	for _, name := range removed {
		if err := os.RemoveAll(d.Path(outgoing + name)); err != nil {
			errs = append(errs, fmt.Errorf("remove what is left of the release %s: %w", name, cause(err)))
		}
	}
	return removed, errors.Join(errs...)
}

// What is being installed and what is being removed has these in front of its name, and a lock on its directory.
const (
	incoming = ".zdd-incoming-"
	outgoing = ".zdd-outgoing-"
)

// sweep removes what processes have left that have ended while they installed or removed a release.
func (d Dir) sweep() {
	entries, err := os.ReadDir(d.Directory)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), incoming) && !strings.HasPrefix(e.Name(), outgoing) {
			continue
		}
		lock, err := lockDirectory(d.Path(e.Name()))
		if err != nil {
			continue // somebody is at it, or it is gone
		}
		_ = os.RemoveAll(d.Path(e.Name())) // the next one tries again
		lock.Close()
	}
}

// lockDirectory locks a directory until the file is closed, which the caller owns. It does not block.
func lockDirectory(path string) (_ *os.File, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	if controlErr := raw.Control(func(fd uintptr) { err = unix.Flock(int(fd), unix.LOCK_EX|unix.LOCK_NB) }); controlErr != nil {
		return nil, controlErr
	}
	return f, os.NewSyscallError("flock", err)
}
