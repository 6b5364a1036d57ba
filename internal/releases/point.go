package releases

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Point makes the link point to a release, in one step. The new link is written as the one that it replaces: a relative
// one stays relative, and goes through the same directories. The link is not on disk before Sync.
func (d Dir) Point(name string) error {
	if err := d.Check(name); err != nil {
		return err
	}
	old, err := os.Readlink(d.Link)
	if err != nil {
		return fmt.Errorf("%w: %s: %w%s", ErrCurrent, d.Link, cause(err), d.mend())
	}
	old = trimmed(old)
	target := old[:strings.LastIndexByte(old, '/')+1] + name // not cleaned: ".." after a link means something else then
	// One that somebody else makes at the same time has another name.
	temporary := filepath.Join(filepath.Dir(d.Link), ".zdd-"+filepath.Base(d.Link)+"-"+strconv.Itoa(os.Getpid()))
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot replace the link %s: remove %s: %w", d.Link, temporary, cause(err))
	}
	if err := os.Symlink(target, temporary); err != nil {
		return fmt.Errorf("cannot replace the link %s: make one beside it: %w", d.Link, cause(err))
	}
	if err := os.Rename(temporary, d.Link); err != nil {
		os.Remove(temporary)
		return fmt.Errorf("cannot replace the link %s: %w", d.Link, cause(err))
	}
	return nil
}

// trimmed is what a link points to without what may stand behind the name of a directory: "/" and "/.".
func trimmed(target string) string {
	for {
		rest := strings.TrimSuffix(strings.TrimRight(target, "/"), "/.")
		if rest == "" || rest == target {
			return target
		}
		target = rest
	}
}

// Sync blocks until the link is on disk as it is now.
func (d Dir) Sync() error { return syncDirectory(filepath.Dir(d.Link)) }

func syncDirectory(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
