package releases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrUnfit says that something in what is to be installed cannot be in a release.
var ErrUnfit = errors.New("cannot be in a release")

// suffixes are those of the archives that Install knows.
var suffixes = []string{".tar", ".tar.gz", ".tgz"}

// NameOf returns the name that a release has which is installed from a path and is given no other: the last part of it,
// without the suffix of an archive.
func NameOf(from string) string {
	name := filepath.Base(from)
	for _, suffix := range suffixes {
		if rest, ok := strings.CutSuffix(name, suffix); ok {
			return rest
		}
	}
	return name
}

// Install makes a release of that name from a directory or an archive (tar, plain or with gzip). It appears whole, and on
// disk, or not at all. It blocks until then, or until ctx ends.
//
// Files keep their permissions but not their owners, and no set-user-ID bit; they belong to the user of this process. Owners
// and other attributes are not taken over. The error wraps ErrName, ErrExists, or ErrUnfit for something that would lead
// out of the release or is neither file, directory nor link.
func (d Dir) Install(ctx context.Context, from, name string) (err error) {
	if err := d.Vacant(name); err != nil {
		return err
	}
	source, err := filepath.EvalSymlinks(from)
	if err != nil {
		return fmt.Errorf("cannot install %s: %w", from, cause(err))
	}
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("cannot install %s: %w", from, cause(err))
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return fmt.Errorf("cannot install %s: it is neither a directory nor an archive", from)
	}
	d.sweep()
	temporary, err := os.MkdirTemp(d.Directory, incoming+"*")
	if err != nil {
		return fmt.Errorf("cannot install into %s: %w", d.Directory, cause(err))
	}
	defer os.RemoveAll(temporary) // nothing is there any more once it was renamed
	lock, err := lockDirectory(temporary)
	if err != nil {
		return fmt.Errorf("cannot install into %s: %w", d.Directory, cause(err))
	}
	defer lock.Close()
	t, err := newTree(ctx, temporary)
	if err != nil {
		return err
	}
	defer t.close()
	if info.IsDir() {
		err = t.copyDirectory(source, d.Directory)
	} else {
		err = t.unpack(source)
	}
	if err == nil {
		err = t.finish()
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("cannot install %s: %w", from, err)
	}
	if err := d.appear(lock, temporary, name); err != nil {
		return fmt.Errorf("cannot install %s as %s: %w", from, d.Path(name), err)
	}
	return nil
}

// Vacant returns an error that wraps ErrName or ErrExists if no release of that name can be installed.
func (d Dir) Vacant(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if _, err := os.Lstat(d.Path(name)); err == nil {
		return fmt.Errorf("%w: %s; deploy it by its name, remove it, or give the new one another", ErrExists, d.Path(name))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot look at %s: %w", d.Path(name), cause(err))
	}
	return nil
}

// appear gives what is complete its name. Everything is on disk before and after.
func (d Dir) appear(lock *os.File, temporary, name string) error {
	if err := os.Chmod(temporary, 0o755); err != nil {
		return cause(err)
	}
	raw, err := lock.SyscallConn()
	if err != nil {
		return err
	}
	var syncing error
	if err := raw.Control(func(fd uintptr) { syncing = unix.Syncfs(int(fd)) }); err != nil {
		return err
	}
	if syncing != nil {
		return fmt.Errorf("write it to disk: %w", syncing)
	}
	// rename(2) alone would take the place of an empty directory.
	err = unix.Renameat2(unix.AT_FDCWD, temporary, unix.AT_FDCWD, d.Path(name), unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // the file system cannot
		err = unix.Rename(temporary, d.Path(name))
	}
	if errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("%w; somebody else has just installed it", ErrExists)
	}
	if err != nil {
		return err
	}
	return syncDirectory(d.Directory)
}
