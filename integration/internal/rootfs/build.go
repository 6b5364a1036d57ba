package rootfs

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// defaultMirror serves where the host's own package sources do not say another.
const defaultMirror = "http://deb.debian.org/debian"

// Build makes the recipe's root file system in cache unless it is there, and removes older ones of the same suite that nobody
// uses. It needs root, debootstrap and a Debian mirror; what these say goes to log. It blocks while another process builds the
// same suite.
func (r Recipe) Build(ctx context.Context, cache string, log io.Writer) error {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	building, err := flock(filepath.Join(cache, r.Suite+".building"), unix.LOCK_EX, os.O_CREATE)
	if err != nil {
		return err
	}
	defer building.Close()
	if root, err := r.Use(cache); err == nil {
		return root.Close()
	}

	final := filepath.Join(cache, r.name())
	// Nobody else builds this suite now, so what has this name was left by a run that was killed.
	unfinished := filepath.Join(cache, r.Suite+".unfinished")
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--propagation", "private", "sh", "-s", "--",
		r.Suite, unfinished, mirror(ctx), filepath.Join(cache, "packages-"+r.Suite),
		strings.Join(r.Base, ","), strings.Join(r.Extra, " "))
	cmd.Stdin = strings.NewReader(script)
	cmd.Stdout, cmd.Stderr = log, log
	// The end of ctx must end what the script has started, too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		_ = os.RemoveAll(unfinished)
		return fmt.Errorf("build root file system %s: %w", r.Suite, err)
	}
	lock, err := flock(final+".lock", unix.LOCK_EX, os.O_CREATE)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := os.Rename(unfinished, final); err != nil {
		return err
	}
	return r.removeOthers(cache)
}

// removeOthers removes the suite's root file systems of other recipes, except those in use.
func (r Recipe) removeOthers(cache string) error {
	locks, err := filepath.Glob(filepath.Join(cache, r.Suite+"-*.lock"))
	if err != nil {
		return err
	}
	for _, path := range locks {
		dir := strings.TrimSuffix(path, ".lock")
		if filepath.Base(dir) == r.name() {
			continue
		}
		lock, err := flock(path, unix.LOCK_EX|unix.LOCK_NB)
		if err != nil {
			continue // in use, or another process removes it just now
		}
		err = os.RemoveAll(dir)
		if err == nil {
			err = os.Remove(path)
		}
		lock.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// mirror is the Debian mirror that the host's own apt is set up with.
func mirror(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI)",
		"Created-By: Packages", "Origin: Debian", "Label: Debian").Output()
	if err != nil {
		return defaultMirror
	}
	uri, _, _ := strings.Cut(string(out), "\n")
	if uri = strings.TrimSuffix(strings.TrimSpace(uri), "/"); uri == "" {
		return defaultMirror
	}
	return uri
}
