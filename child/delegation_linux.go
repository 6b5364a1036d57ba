package child

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// supervisorLeaf is the cgroup in which the supervisor itself sits: once controllers
// are on in a cgroup, no process may be in it but in its leaves, see "no internal
// processes" in cgroups(7).
const supervisorLeaf = "supervisor"

// ErrCgroupInUse is a cgroup that processes are in already.
var ErrCgroupInUse = errors.New("processes are in the cgroup already")

// A Delegation is the part of the cgroup hierarchy that the supervisor may arrange
// as it likes: below the cgroup of its unit, with Delegate=yes.
type Delegation struct {
	path  string // in the file system
	inner string // as /proc/PID/cgroup shows it
}

// OpenDelegation finds the cgroup that was delegated to this process and moves the
// process into the leaf "supervisor" of it. It returns nil and no error where
// nothing was delegated, without cgroup version 2 or systemd, or without Delegate=,
// and where the hierarchy may not be written to (ProtectControlGroups=). A second call, and a call by a later supervisor in the same place, find the same.
func OpenDelegation() (*Delegation, error) {
	d, err := findDelegation("/proc/self/cgroup", "/proc/self/mountinfo")
	if d == nil || err != nil {
		return nil, err
	}
	leaf := filepath.Join(d.path, supervisorLeaf)
	switch err := os.Mkdir(leaf, 0o755); {
	case err == nil, errors.Is(err, fs.ErrExist):
	case errors.Is(err, unix.EROFS), errors.Is(err, fs.ErrPermission):
		return nil, nil
	default:
		return nil, fmt.Errorf("make a cgroup for the supervisor: %w", err)
	}
	if err := writeCgroup(filepath.Join(leaf, "cgroup.procs"), strconv.Itoa(os.Getpid())); err != nil {
		return nil, fmt.Errorf("move the supervisor into a cgroup of its own: %w", err)
	}
	return d, nil
}

// findDelegation returns nil if there is none.
func findDelegation(cgroupFile, mountinfoFile string) (*Delegation, error) {
	b, err := os.ReadFile(cgroupFile)
	if err != nil {
		return nil, fmt.Errorf("find our cgroup: %w", err)
	}
	inner, ok := cgroupOf(b)
	if !ok {
		return nil, nil
	}
	b, err = os.ReadFile(mountinfoFile)
	if err != nil {
		return nil, fmt.Errorf("find where cgroups are mounted: %w", err)
	}
	root, ok := cgroupMount(b)
	if !ok {
		return nil, nil
	}
	for _, at := range []string{inner, path.Dir(inner)} {
		if at != inner && path.Base(inner) != supervisorLeaf {
			break
		}
		d := &Delegation{path: filepath.Join(root, at), inner: at}
		delegated, err := isDelegated(d.path)
		if err != nil {
			return nil, err
		}
		if delegated {
			return d, nil
		}
	}
	return nil, nil
}

// isDelegated looks for the mark that systemd puts on what it delegates. Only root
// sees the one in trusted; systemd sets user since 251.
func isDelegated(dir string) (bool, error) {
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		var value [8]byte
		n, err := unix.Getxattr(dir, name, value[:])
		switch {
		case err == nil:
			if string(value[:n]) == "1" {
				return true, nil
			}
		case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ERANGE),
			errors.Is(err, unix.ENOENT): // outside of what is mounted here
		default:
			return false, fmt.Errorf("see whether %s is delegated: %w", dir, os.NewSyscallError("getxattr", err))
		}
	}
	return false, nil
}

// New makes the cgroup of a generation, such as "gen-7". One of that name that
// nobody is in any more is used again; ErrCgroupInUse, wrapped, if somebody is. The
// caller removes it.
func (d *Delegation) New(name string) (*Cgroup, error) {
	c, err := d.open(name, true)
	if err != nil {
		return nil, err
	}
	populated, err := c.populated()
	if err == nil && populated {
		err = ErrCgroupInUse
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("make the cgroup %s: %w", c.path, err)
	}
	return c, nil
}

// Open opens a cgroup that exists, that of a generation which is taken over.
func (d *Delegation) Open(name string) (*Cgroup, error) { return d.open(name, false) }

func (d *Delegation) open(name string, create bool) (*Cgroup, error) {
	if name == "" || strings.ContainsAny(name, "/\x00") || name[0] == '.' || name == supervisorLeaf {
		return nil, fmt.Errorf("%q cannot be the name of a cgroup", name)
	}
	dir := filepath.Join(d.path, name)
	if create {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make a cgroup: %w", err)
		}
	}
	c, err := openCgroup(dir, path.Join(d.inner, name))
	if err != nil {
		return nil, fmt.Errorf("open a cgroup: %w", err)
	}
	return c, nil
}

// Path returns the directory of the delegated cgroup.
func (d *Delegation) Path() string { return d.path }

// cgroupOf reads a /proc/PID/cgroup and returns the place in the version 2
// hierarchy. It says false if there is none, or none within our cgroup namespace.
func cgroupOf(b []byte) (string, bool) {
	for line := range bytes.Lines(b) {
		if at, ok := strings.CutPrefix(strings.TrimSuffix(string(line), "\n"), "0::"); ok {
			return at, path.IsAbs(at) && path.Clean(at) == at
		}
	}
	return "", false
}

// cgroupMount reads a /proc/PID/mountinfo and returns where the version 2 hierarchy
// is mounted as a whole, see proc_pid_mountinfo(5).
func cgroupMount(b []byte) (string, bool) {
	for line := range bytes.Lines(b) {
		// 29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw
		before, after, ok := strings.Cut(string(line), " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 || fields[3] != "/" {
			continue
		}
		if kind, _, _ := strings.Cut(after, " "); kind == "cgroup2" {
			return unescapeMount(fields[4]), true
		}
	}
	return "", false
}

// unescapeMount undoes \040 and the like.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
