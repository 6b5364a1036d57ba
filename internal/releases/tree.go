package releases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Limits of what is installed. What an archive says about sizes is not trusted: what is written is counted.
const (
	maxBytes   = 16 << 30
	maxEntries = 2_000_000
	maxPath    = 4096
)

// A tree is a release that is being written. Links are made last: while files are written there is none that could lead one
// of them out of it.
type tree struct {
	ctx     context.Context
	root    *os.Root
	path    string
	bytes   int64 // that were written
	most    int64 // that may be
	entries int
	links   []link

	// What was written, by name: no part of the path of any of them is a link.
	directories, files map[string]bool
}

// A link is one that finish makes.
type link struct {
	name, target string
	hard         bool
}

func newTree(ctx context.Context, dir string) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &tree{ctx: ctx, root: root, path: dir, most: maxBytes, directories: make(map[string]bool), files: make(map[string]bool)}, nil
}

func (t *tree) close() { t.root.Close() }

// enter checks the name of an entry, and returns it cleaned. It is "." for the release itself.
func (t *tree) enter(name string) (string, error) {
	if err := t.ctx.Err(); err != nil {
		return "", err
	}
	if t.entries++; t.entries > maxEntries {
		return "", fmt.Errorf("it has more than %d entries, which %w", maxEntries, ErrUnfit)
	}
	clean := path.Clean(name)
	if name == "" || len(name) > maxPath || strings.ContainsRune(name, 0) || !filepath.IsLocal(clean) {
		return "", fmt.Errorf("%q %w: it would be outside of it, or is no path", shorten(name), ErrUnfit)
	}
	return clean, nil
}

// shorten keeps messages short.
func shorten(name string) string {
	const most = 200
	if len(name) > most {
		return name[:most] + "..."
	}
	return name
}

// parents makes the directories that a name is in. They may come later in an archive, or never.
func (t *tree) parents(name string) error {
	dir := path.Dir(name)
	if dir == "." || t.directories[dir] {
		return nil
	}
	return t.directory(dir, 0o755)
}

// directory makes a directory, and those that it is in.
func (t *tree) directory(name string, mode fs.FileMode) error {
	if name == "." {
		return nil
	}
	// Whoever installs must be able to write into it and to remove it.
	mode = mode.Perm() | 0o700
	if !t.directories[name] { // else what is in it has come first
		if err := t.parents(name); err != nil {
			return err
		}
		err := t.root.Mkdir(name, mode)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%q %w: it is a directory and something else as well", name, ErrUnfit)
		}
		if err != nil {
			return failedAt(name, err)
		}
		t.directories[name] = true
	}
	// Whatever the umask is.
	f, err := t.root.Open(name)
	if err != nil {
		return failedAt(name, err)
	}
	return failedAt(name, errors.Join(f.Chmod(mode), f.Close()))
}

// file writes a regular file.
func (t *tree) file(name string, mode fs.FileMode, from io.Reader) (err error) {
	if name == "." {
		return fmt.Errorf("the release itself is a file, and %w", ErrUnfit)
	}
	if err := t.parents(name); err != nil {
		return err
	}
	f, err := t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%q %w: it is there twice", name, ErrUnfit)
	}
	if err != nil {
		return failedAt(name, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n, err := io.Copy(f, io.LimitReader(untilDone{t.ctx, from}, t.most-t.bytes+1))
	if t.bytes += n; err == nil && t.bytes > t.most {
		err = fmt.Errorf("it has more than %d bytes, which %w", t.most, ErrUnfit)
	}
	if err != nil {
		return failedAt(name, err)
	}
	t.files[name] = true
	return failedAt(name, f.Chmod(mode.Perm()))
}

// untilDone reads until a context ends.
type untilDone struct {
	ctx  context.Context
	from io.Reader
}

func (r untilDone) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(p)
}

// symlink notes a symbolic link, if it stays inside. Only leading ".." are taken: they are meant from the directory that
// the link is in, which is none that a link leads to, and so can be counted.
func (t *tree) symlink(name, target string) error {
	why := ""
	rest := target
	for strings.HasPrefix(rest, "../") {
		rest = strings.TrimLeft(rest[3:], "/")
	}
	switch {
	case name == ".":
		return fmt.Errorf("the release itself is a link, and %w", ErrUnfit)
	case target == "" || len(target) > maxPath || strings.ContainsRune(target, 0):
		why = "it points to what is no path"
	case path.IsAbs(target):
		why = "it is absolute; make it relative, or copy what it points to"
	case rest != ".." && containsParent(rest):
		why = `it has a ".." behind another part`
	case !filepath.IsLocal(path.Join(path.Dir(name), target)):
		why = "it leads out of it; copy what it points to"
	}
	if why != "" {
		return fmt.Errorf("the link %q to %q %w: %s", name, shorten(target), ErrUnfit, why)
	}
	t.links = append(t.links, link{name: name, target: target})
	return nil
}

func containsParent(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}

// hardlink notes another name of a file that was written.
func (t *tree) hardlink(name, target string) error {
	target = path.Clean(target)
	if name == "." || !t.files[target] {
		return fmt.Errorf("%q %w: it is another name of %q, which is no file before it", name, ErrUnfit, shorten(target))
	}
	t.links = append(t.links, link{name: name, target: target, hard: true})
	return nil
}

// finish makes the links: hard ones first, so that no symbolic one is on their way.
func (t *tree) finish() error {
	for _, hard := range []bool{true, false} {
		for _, l := range t.links {
			if l.hard != hard {
				continue
			}
			if _, err := t.root.Lstat(l.name); err == nil {
				return fmt.Errorf("%q %w: it is there twice", l.name, ErrUnfit)
			}
			if err := t.parents(l.name); err != nil {
				return err
			}
			at := filepath.Join(t.path, filepath.FromSlash(l.name))
			var err error
			if l.hard {
				err = os.Link(filepath.Join(t.path, filepath.FromSlash(l.target)), at)
			} else {
				err = os.Symlink(l.target, at)
			}
			if err != nil {
				return failedAt(l.name, err)
			}
		}
	}
	return nil
}

// failedAt says where in the release something went wrong.
func failedAt(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, cause(err))
}
