package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// newCgroup makes an empty cgroup at the top of the host's cgroup2 hierarchy and returns its directory. At the top, unlike below, a
// cgroup may be made and entered beside whatever processes there are.
func newCgroup() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	top := hierarchy(string(mounts))
	if top == "" {
		return "", errors.New("no cgroup2 hierarchy is mounted")
	}
	dir, err := os.MkdirTemp(top, "zdd-machine-")
	if err != nil {
		return "", fmt.Errorf("make cgroup: %w", err)
	}
	return dir, nil
}

// hierarchy finds the cgroup2 mount in the text of /proc/self/mounts: on /sys/fs/cgroup, or on a directory below it if version 1
// is mounted, too.
func hierarchy(mounts string) string {
	for line := range strings.Lines(mounts) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" && strings.HasPrefix(f[1]+"/", "/sys/fs/cgroup/") {
			return f[1]
		}
	}
	return ""
}

// RemoveCgroup removes a cgroup and all below it. They must have no processes.
func RemoveCgroup(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, dir := range slices.Backward(dirs) {
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}
