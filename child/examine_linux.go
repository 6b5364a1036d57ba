package child

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrUnseen is returned by Examine for what it may not look at.
var ErrUnseen = errors.New("cannot be looked at")

// Examine looks whether a command could be started, as far as files and their
// permission bits tell, and starts nothing. The error is the *ExecError that Start
// would return, or wraps ErrUnseen. Nil means that nothing was found to be wrong.
func Examine(c Command) error {
	path, err := lookPath(c.Path, c.Env)
	if err != nil {
		return &ExecError{Path: c.Path, Stage: StageExec, Err: err, reason: explainLookPath(err, c.Env)}
	}
	if errno := examineDirectory(&c); errno != nil {
		return &ExecError{Path: path, Stage: StageDirectory, Err: errno, reason: explainDirectory(c.Dir, c.Credential, errno)}
	}
	file := path
	if !filepath.IsAbs(file) {
		file = filepath.Join(c.Dir, file)
	}
	errno := examineFile(&c, file)
	var unseen *fs.PathError
	switch {
	case errno == nil:
		return nil
	case errors.As(errno, &unseen):
		return errors.Join(ErrUnseen, errno)
	}
	return &ExecError{Path: path, Stage: StageExec, Err: errno, reason: explainExec(&c, path, errno)}
}

// examineDirectory returns what entering the working directory would.
func examineDirectory(c *Command) error {
	if c.Dir == "" {
		return nil
	}
	info, err := os.Stat(c.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return unix.ENOENT
	case err != nil:
		return nil // the file in it will tell
	case !info.IsDir():
		return unix.ENOTDIR
	case closedDirectory(c.Dir, c.Credential) != "":
		return unix.EACCES
	}
	return nil
}

// examineFile returns what executing the file would, or a *fs.PathError for what cannot be seen.
func examineFile(c *Command, file string) error {
	info, err := os.Stat(file)
	var fsStat unix.Statfs_t
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return unix.ENOENT
	case errors.Is(err, unix.ENOTDIR):
		return unix.ENOTDIR
	case err != nil:
		return err
	case !info.Mode().IsRegular(), !allowed(info, c.Credential), closedDirectory(filepath.Dir(file), c.Credential) != "":
		return unix.EACCES
	case unix.Statfs(file, &fsStat) == nil && fsStat.Flags&unix.ST_NOEXEC != 0:
		return unix.EACCES
	}
	f, err := os.Open(file)
	if err != nil {
		return nil // it can be executed without being readable
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := f.ReadAt(head, 0)
	if string(head[:min(n, 2)]) != "#!" && string(head[:n]) != "\x7fELF" {
		return unix.ENOEXEC // but for binfmt_misc, which hardly any service needs
	}
	if name, _ := interpreter(file); name != "" {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return unix.ENOENT
		}
	}
	return nil
}
