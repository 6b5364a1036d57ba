package child

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// defaultPath is where programs are when the environment does not say; it is
// what systemd gives to services.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookPath finds a program as execvp(3) does, in the PATH of the service and not
// in ours. A name with a slash is taken as it is. Relative directories in PATH are
// passed over: they would find another program after a change of directory. The
// error is fs.ErrNotExist, or fs.ErrPermission for a file that is not executable.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	path := defaultPath
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
			break
		}
	}
	found := fs.ErrNotExist
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, name)
		info, err := os.Stat(file)
		switch {
		case err != nil || info.IsDir():
		case info.Mode().Perm()&0o111 != 0:
			return file, nil
		default:
			found = fs.ErrPermission
		}
	}
	return "", found
}
