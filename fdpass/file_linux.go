package fdpass

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/user"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A fileID tells one file from every other that exists at the same time.
type fileID struct{ device, inode uint64 }

// identify returns the identity of the file at path, of links that of the link,
// and its type (S_IFMT). The error is the bare errno.
func identify(path string) (fileID, uint32, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fileID{}, 0, err
	}
	return fileID{uint64(st.Dev), st.Ino}, uint32(st.Mode) & unix.S_IFMT, nil
}

// errReplaced is what is wrong with a path at which there is not our file.
var errReplaced = errors.New("another file has taken the place of the socket's")

// A socketFile is the file of a unix socket that we have bound. As long as the
// socket is open its inode is in use, so that no other file can have the same
// identity. Remove it before the socket is closed.
type socketFile struct {
	path string
	id   fileID
}

// remove unlinks the file if it is still the one that we bound, and the second
// link. Nobody but the owner of the directory could put another file there between
// the look and the unlink.
func (f *socketFile) remove() error {
	return errors.Join(f.unlink(f.path), f.unlink(f.spare()))
}

// unlink unlinks one of the two links.
func (f *socketFile) unlink(path string) error {
	id, _, err := identify(path)
	if err != nil || id != f.id {
		return nil // gone, or somebody else's
	}
	if err := unix.Unlink(path); err != nil && err != unix.ENOENT {
		return &os.PathError{Op: "remove", Path: path, Err: err}
	}
	return nil
}

// spare is where the second link is: beside the first, since links cannot lead to
// another file system.
func (f *socketFile) spare() string {
	dir, name := path.Split(f.path)
	return dir + "." + name + ".zdd"
}

// keep makes the second link. One that a dead supervisor has left is replaced.
func (f *socketFile) keep() error {
	spare := f.spare()
	if id, kind, err := identify(spare); err == nil && id == f.id {
		return nil
	} else if err == nil && kind == unix.S_IFSOCK {
		if err := unix.Unlink(spare); err != nil {
			return &os.PathError{Op: "remove", Path: spare, Err: err}
		}
	}
	if err := unix.Link(f.path, spare); err != nil {
		return &os.LinkError{Op: "link", Old: f.path, New: spare, Err: err}
	}
	return nil
}

// restore puts the path back from the second link.
func (f *socketFile) restore() error {
	if id, _, err := identify(f.spare()); err != nil {
		return &os.PathError{Op: "lstat", Path: f.spare(), Err: err}
	} else if id != f.id {
		return fmt.Errorf("%s: %w", f.spare(), errReplaced)
	}
	if err := unix.Link(f.spare(), f.path); err != nil && err != unix.EEXIST {
		return &os.LinkError{Op: "link", Old: f.spare(), New: f.path, Err: err}
	}
	return nil
}

// An ownership is who owns a file and who may use it; -1 leaves a uid or gid,
// and 0 the permissions, as they are.
type ownership struct {
	uid, gid    int
	permissions uint32
}

// set changes owner and permissions, in this order, so that nobody is let in
// whom the new owner would not have let in.
func (f *socketFile) set(o ownership) error {
	if o == (ownership{uid: -1, gid: -1}) {
		return nil
	}
	// From here on the inode is held, whatever happens to the path.
	raw, err := unix.Open(f.path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: f.path, Err: err}
	}
	defer unix.Close(raw)
	var st unix.Stat_t
	if err := unix.Fstat(raw, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if (fileID{uint64(st.Dev), st.Ino}) != f.id {
		return fmt.Errorf("%s: %w", f.path, errReplaced)
	}
	if o.uid != -1 || o.gid != -1 {
		if err := unix.Fchownat(raw, "", o.uid, o.gid, unix.AT_EMPTY_PATH); err != nil {
			return os.NewSyscallError("chown", err)
		}
	}
	if o.permissions != 0 {
		// fchmod(2) does not take O_PATH, and fchmodat2(2) needs Linux 6.6.
		if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(raw), o.permissions); err != nil {
			return os.NewSyscallError("chmod", err)
		}
	}
	return nil
}

// ownership returns what a new file is to have, and looks users and groups up.
func (s Spec) ownership() (ownership, error) {
	o := ownership{uid: -1, gid: -1, permissions: s.Permissions}
	var err error
	if s.Owner != "" {
		if o.uid, err = userID(s.Owner); err != nil {
			return o, err
		}
	}
	if s.Group != "" {
		if o.gid, err = groupID(s.Group); err != nil {
			return o, err
		}
	}
	return o, nil
}

// ownershipFrom returns what has to change on a file that was made for old. What
// s does not mention any more goes back to what it would be without.
func (s Spec) ownershipFrom(old Spec) (ownership, error) {
	o, err := s.ownership()
	if err != nil {
		return o, err
	}
	switch {
	case s.Owner == old.Owner:
		o.uid = -1
	case s.Owner == "":
		o.uid = os.Geteuid()
	}
	switch {
	case s.Group == old.Group:
		o.gid = -1
	case s.Group == "":
		o.gid = os.Getegid()
	}
	switch {
	case s.Permissions == old.Permissions:
		o.permissions = 0
	case s.Permissions == 0:
		umask, err := currentUmask()
		if err != nil {
			return o, err
		}
		o.permissions = 0o777 &^ umask
	}
	return o, nil
}

// userID returns the number of a user given by name or number.
func userID(name string) (int, error) {
	if isNumber(name) {
		return parseID("owner", name)
	}
	u, err := user.Lookup(name)
	if err != nil {
		return -1, &optionError{"owner", name, err}
	}
	return parseID("owner", u.Uid)
}

// groupID returns the number of a group given by name or number.
func groupID(name string) (int, error) {
	if isNumber(name) {
		return parseID("group", name)
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return -1, &optionError{"group", name, err}
	}
	return parseID("group", g.Gid)
}

func parseID(option, text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == math.MaxUint32 { // chown(2) takes that for "leave it"
		return -1, &optionError{option, text, strconv.ErrRange}
	}
	return int(n), nil
}

// currentUmask reads the umask; umask(2) could only do so by changing it, for
// every thread of the process.
func currentUmask() (uint32, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "Umask:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 8, 32)
			return uint32(n), err
		}
	}
	return 0, errors.New("/proc/self/status has no Umask")
}
