// Package install puts configuration files into place: each of them whole or not at all, and none over one that somebody
// has changed.
package install

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrDiffers is a file that is there already and says something else.
var ErrDiffers = errors.New("exists and is not the same")

// A File is one that is to be there.
type File struct {
	Path string // absolute
	Text string
	Mode fs.FileMode
}

// Write writes those of the files that are not there yet, with the directories above them, and returns their paths. Where one
// of them is there with another text, nothing is written and the error wraps ErrDiffers, unless force is set. A file is never seen
// in part; if one of them cannot be written, those before it are there.
func Write(files []File, force bool) (written []string, err error) {
	var missing []File
	for _, f := range files {
		switch present, err := os.ReadFile(f.Path); {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, f)
		case err != nil:
			return nil, fmt.Errorf("cannot read what is there: %w", err)
		case string(present) == f.Text:
		case !force:
			return nil, fmt.Errorf("%s %w: %s", f.Path, ErrDiffers, firstDifference(string(present), f.Text))
		default:
			missing = append(missing, f)
		}
	}
	for _, f := range missing {
		if err := f.write(force); err != nil {
			return written, err
		}
		written = append(written, f.Path)
	}
	return written, nil
}

// write puts the file into place. Without force it does not replace one that has come meanwhile.
func (f File) write(force bool) (err error) {
	dir := filepath.Dir(f.Path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(dir, "."+filepath.Base(f.Path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.WriteString(f.Text)
	err = errors.Join(err, temporary.Chmod(f.Mode), temporary.Sync(), temporary.Close())
	switch {
	case err != nil:
		return fmt.Errorf("write %s: %w", f.Path, err)
	case force:
		return os.Rename(temporary.Name(), f.Path)
	}
	err = os.Link(temporary.Name(), f.Path)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s %w: it has just come", f.Path, ErrDiffers)
	}
	return err
}

// firstDifference says where two texts begin to differ, in words that end a sentence.
func firstDifference(has, want string) string {
	theirs, ours := strings.Split(has, "\n"), strings.Split(want, "\n")
	for i := range max(len(theirs), len(ours)) {
		switch {
		case i >= len(theirs):
			return fmt.Sprintf("it ends before line %d, which would be %q", i+1, ours[i])
		case i >= len(ours):
			return fmt.Sprintf("it goes on with line %d, which is %q", i+1, theirs[i])
		case theirs[i] != ours[i]:
			return fmt.Sprintf("its line %d is %q and would be %q", i+1, theirs[i], ours[i])
		}
	}
	return "" // they do not differ
}
