package releases

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/zddsupervisor/zddsupervisor/internal/suggest"
)

// Errors that tell why something cannot be done with a release. Each is wrapped in a sentence that says what to do.
var (
	ErrName    = errors.New("cannot be the name of a release")
	ErrMissing = errors.New("there is no such release")
	ErrExists  = errors.New("there is such a release already")
	ErrCurrent = errors.New("the current release cannot be told")
)

// A Dir is where the releases of one service lie.
type Dir struct {
	Directory string // has a directory for each release
	Link      string // the symbolic link to one of them
}

// maxName leaves room for what a name is given in front while it is installed or removed, within the 255 bytes of a file
// name.
const maxName = 200

// CheckName returns an error that wraps ErrName if no release can have that name.
func CheckName(name string) error {
	why := ""
	switch {
	case name == "":
		why = "it is empty"
	case strings.ContainsRune(name, '/'):
		why = "it has a slash in it; give the name of a directory, and not its path"
	case strings.HasPrefix(name, "."):
		why = "it begins with a dot"
	case len(name) > maxName:
		why = fmt.Sprintf("it has more than %d bytes", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		why = "it has a character that cannot be printed"
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%q %w: %s", name, ErrName, why)
}

// Path returns where the release of that name is, or would be.
func (d Dir) Path(name string) string { return filepath.Join(d.Directory, name) }

// Current returns the name of the release that the link points to now. The error wraps ErrCurrent if the link is none,
// points elsewhere, or to nothing.
func (d Dir) Current() (string, error) {
	target, err := os.Readlink(d.Link)
	if err != nil {
		if info, statErr := os.Lstat(d.Link); statErr == nil && info.Mode()&fs.ModeSymlink == 0 {
			return "", fmt.Errorf("%w: %s is not a symbolic link%s", ErrCurrent, d.Link, d.mend())
		}
		return "", fmt.Errorf("%w: %s: %w%s", ErrCurrent, d.Link, cause(err), d.mend())
	}
	target = trimmed(target)
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(d.Link), target)
	}
	// The link itself says which release it is. What may be links are the directories on the way.
	parent, err := filepath.EvalSymlinks(filepath.Dir(target))
	if err != nil {
		return "", fmt.Errorf("%w: %s points to %s: %w%s", ErrCurrent, d.Link, target, cause(err), d.mend())
	}
	releases, err := filepath.EvalSymlinks(d.Directory)
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrCurrent, d.Directory, cause(err))
	}
	if parent != releases {
		return "", fmt.Errorf("%w: %s points to %s, which is not in %s%s", ErrCurrent, d.Link, target, d.Directory, d.mend())
	}
	// A release that is a link could not be pointed back to, see Check.
	if info, err := os.Lstat(target); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%w: %s points to %s, which is not a directory%s", ErrCurrent, d.Link, target, d.mend())
	}
	name := filepath.Base(target)
	if err := CheckName(name); err != nil {
		return "", fmt.Errorf("%w: %s points to %s: %w", ErrCurrent, d.Link, target, err)
	}
	return name, nil
}

// mend ends a sentence about a link that cannot be used.
func (d Dir) mend() string {
	return fmt.Sprintf("; make it a symbolic link to a directory in %s, with ln -sfnT", d.Directory)
}

// Check returns an error that wraps ErrName or ErrMissing if there is no release of that name.
func (d Dir) Check(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	info, err := os.Lstat(d.Path(name))
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("%w: %s is not a directory", ErrMissing, d.Path(name))
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s: %w", ErrMissing, d.Path(name), cause(err))
	}
	known, err := d.List()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	return fmt.Errorf("%w: %q is not in %s%s", ErrMissing, name, d.Directory, thereAre(name, known))
}

// mostNamed is how many releases a message names.
const mostNamed = 5

// thereAre ends a sentence about a release that is not there.
func thereAre(name string, known []string) string {
	switch n := len(known); {
	case n == 0:
		return ", and no other is; put one there, or deploy with --from"
	case suggest.DidYouMean(name, known) != "":
		return suggest.DidYouMean(name, known)
	case n > mostNamed:
		return fmt.Sprintf("; the newest of the %d there are %s", n, strings.Join(known[:mostNamed], ", "))
	}
	return "; there are " + strings.Join(known, ", ")
}

// List returns the names of all releases, the newest first: the one whose directory was changed last.
func (d Dir) List() ([]string, error) {
	all, err := d.list()
	names := make([]string, len(all))
	for i, r := range all {
		names[i] = r.name
	}
	return names, err
}

// cause leaves out the path of an error that a sentence names already.
func cause(err error) error {
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	switch {
	case errors.As(err, &pathErr):
		return pathErr.Err
	case errors.As(err, &linkErr):
		return linkErr.Err
	}
	return err
}
