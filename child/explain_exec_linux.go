package child

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// explainExec says why path, which is relative to c.Dir, could not be executed.
func explainExec(c *Command, path string, errno error) string {
	file := path
	if !filepath.IsAbs(file) {
		file = filepath.Join(c.Dir, file)
	}
	info, statErr := os.Stat(file)
	switch {
	case errors.Is(errno, fs.ErrNotExist):
		if statErr != nil {
			return explainMissing(file)
		}
		if name, what := interpreter(file); name != "" {
			return fmt.Sprintf("its %s %q does not exist", what, name)
		}
	case errors.Is(errno, fs.ErrPermission):
		return explainPermission(file, info, c.Credential)
	case errors.Is(errno, unix.ENOEXEC):
		return explainFormat(file, info)
	case errors.Is(errno, unix.E2BIG):
		return "its arguments and environment are too long"
	case errors.Is(errno, unix.ETXTBSY):
		return "its file is open for writing: wait until it is written, or put a new file in its place by renaming"
	case errors.Is(errno, unix.EAGAIN):
		return who(c.Credential) + " has too many processes (RLIMIT_NPROC)"
	}
	return errno.Error()
}

func explainMissing(file string) string {
	if target, err := os.Readlink(file); err == nil {
		return fmt.Sprintf("it is a symbolic link to %q, which does not exist", target)
	}
	return unix.ENOENT.Error()
}

func explainPermission(file string, info fs.FileInfo, cred *Credential) string {
	if at := closedDirectory(filepath.Dir(file), cred); at != "" {
		return who(cred) + " may not enter the directory " + at
	}
	if info == nil {
		return unix.EACCES.Error()
	}
	var fsStat unix.Statfs_t
	switch {
	case info.IsDir():
		return "it is a directory"
	case !info.Mode().IsRegular():
		return "it is not a regular file"
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Sprintf("it is not executable (mode %04o)", info.Mode().Perm())
	case unix.Statfs(file, &fsStat) == nil && fsStat.Flags&unix.ST_NOEXEC != 0:
		return "it is on a file system that is mounted noexec"
	case !allowed(info, cred):
		return fmt.Sprintf("%s may not execute it (mode %04o)", who(cred), info.Mode().Perm())
	}
	if name, what := interpreter(file); name != "" {
		if i, err := os.Stat(name); err == nil {
			return fmt.Sprintf("its %s %q cannot be executed: %s", what, name, explainPermission(name, i, cred))
		}
	}
	return unix.EACCES.Error()
}

func explainFormat(file string, info fs.FileInfo) string {
	if info != nil && info.Size() == 0 {
		return "its file is empty"
	}
	if f, err := elf.Open(file); err == nil {
		defer f.Close()
		return "it is a program for another kind of machine (" + f.Machine.String() + ")"
	}
	return "it is neither a program for this system nor a script that begins with #! (exec format error)"
}

// interpreter is what the kernel needs besides the file itself to run it: the
// program in the first line of a script, or the loader of a dynamic program.
func interpreter(file string) (name, what string) {
	// Not what blocks when opened, and not by chance a device.
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return "", ""
	}
	f, err := os.Open(file)
	if err != nil {
		return "", ""
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 256)) // as much as the kernel reads
	if err != nil {
		return "", ""
	}
	if line, ok := strings.CutPrefix(string(head), "#!"); ok {
		line, _, _ = strings.Cut(line, "\n")
		line = strings.TrimLeft(line, " \t")
		// A carriage return belongs to the name, and is the very reason then.
		if i := strings.IndexAny(line, " \t"); i >= 0 {
			line = line[:i]
		}
		return line, "interpreter"
	}
	e, err := elf.NewFile(f)
	if err != nil {
		return "", ""
	}
	for _, p := range e.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		b, err := io.ReadAll(io.LimitReader(p.Open(), unix.PathMax))
		if err == nil {
			return strings.TrimRight(string(b), "\x00"), "loader"
		}
	}
	return "", ""
}

// closedDirectory is the first directory on the way to dir, itself included, that
// cred may not enter, or "".
func closedDirectory(dir string, cred *Credential) string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	at := "/"
	for _, name := range append([]string{""}, strings.Split(strings.TrimPrefix(dir, "/"), "/")...) {
		at = filepath.Join(at, name)
		if info, err := os.Stat(at); err == nil && info.IsDir() && !allowed(info, cred) {
			return at
		}
	}
	return ""
}
