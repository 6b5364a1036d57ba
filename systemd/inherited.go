package systemd

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// ErrInherited is returned when the descriptors that were announced in the
// environment are not the ones that are there.
var ErrInherited = errors.New("descriptors passed by the service manager do not match LISTEN_FDS and LISTEN_FDNAMES")

// firstInherited is the number of the first descriptor passed, SD_LISTEN_FDS_START.
const firstInherited = 3

// unnamed is what sd_listen_fds_with_names(3) calls descriptors where the
// manager gives no names.
const unnamed = "unknown"

// Inherited returns the descriptors that the service manager passed to this
// process (see sd_listen_fds(3)) by the name of each: FileDescriptorName= of the
// .socket unit, or else that unit's name. Those of one name are in the order in
// which they were passed. There are none if the environment announces none, or
// announces them to another process.
//
// The caller owns the descriptors, which are close-on-exec. LISTEN_PID,
// LISTEN_PIDFDID, LISTEN_FDS and LISTEN_FDNAMES are removed from the
// environment, so a second call finds nothing. Call it before anything else
// opens descriptors.
//
// If what is announced is not what is there, the error wraps ErrInherited, and
// what is certain to have been passed is closed.
func Inherited() (map[string][]*fdpass.FD, error) {
	const pid, pidfd, count, names = "LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDS", "LISTEN_FDNAMES"
	announced := announcement{
		pid:   os.Getenv(pid),
		pidfd: os.Getenv(pidfd),
		count: os.Getenv(count),
	}
	announced.names, announced.named = os.LookupEnv(names)
	for _, key := range []string{pid, pidfd, count, names} {
		if err := os.Unsetenv(key); err != nil {
			return nil, fmt.Errorf("remove %s from the environment: %w", key, err)
		}
	}
	n, err := announced.forUs(os.Getpid(), pidfdInode)
	if n == 0 || err != nil {
		return nil, err
	}
	fds, err := takeDescriptors(n)
	if err != nil {
		return nil, err
	}
	byName, err := announced.sort(fds)
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	return byName, nil
}

// An announcement is what the environment says about descriptors.
type announcement struct {
	pid, pidfd, count, names string
	named                    bool // whether there are names at all
}

// forUs returns how many descriptors are announced to the process pid, whose
// pidfd has the inode number that inode returns. inode is 0 where the kernel
// has no such number.
func (a announcement) forUs(pid int, inode func() uint64) (int, error) {
	if a.pid != strconv.Itoa(pid) || a.count == "" {
		return 0, nil
	}
	if a.pidfd != "" {
		// A process id can be used anew, an inode number of a pidfd cannot.
		if own := inode(); own != 0 && a.pidfd != strconv.FormatUint(own, 10) {
			return 0, nil
		}
	}
	n, err := strconv.ParseUint(a.count, 10, 31)
	if err != nil {
		return 0, fmt.Errorf("LISTEN_FDS is %q, not a number: %w", a.count, ErrInherited)
	}
	return int(n), nil
}

// sort sorts the descriptors by name. It takes ownership of fds unless it fails.
func (a announcement) sort(fds []*fdpass.FD) (map[string][]*fdpass.FD, error) {
	byName := make(map[string][]*fdpass.FD, len(fds))
	if !a.named {
		byName[unnamed] = fds
		return byName, nil
	}
	names := strings.Split(a.names, ":")
	if len(names) != len(fds) {
		return nil, fmt.Errorf("LISTEN_FDNAMES has %d names for %d descriptors: %w", len(names), len(fds), ErrInherited)
	}
	for i, name := range names {
		byName[name] = append(byName[name], fds[i])
	}
	return byName, nil
}

// takeDescriptors takes ownership of n descriptors from firstInherited on. It
// makes sure that each was passed: then it has come through execve(2) and is not
// close-on-exec, whereas all that Go has opened in this process is.
func takeDescriptors(n int) (fds []*fdpass.FD, err error) {
	defer func() {
		if err != nil {
			closeAll(fds)
			fds = nil
		}
	}()
	for raw := firstInherited; raw < firstInherited+n; raw++ {
		flags, err := unix.FcntlInt(uintptr(raw), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			return fds, fmt.Errorf("LISTEN_FDS is %d, but descriptor %d was not passed: %w", n, raw, ErrInherited)
		}
		if _, err := unix.FcntlInt(uintptr(raw), unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
			return fds, fmt.Errorf("make descriptor %d close-on-exec: %w", raw, os.NewSyscallError("fcntl", err))
		}
		fds = append(fds, fdpass.NewFD(raw))
	}
	return fds, nil
}

func closeAll(fds []*fdpass.FD) {
	for _, fd := range fds {
		fd.Close()
	}
}

// pidfdInode returns the inode number of this process's pidfds, or 0 where all
// pidfds share one (before Linux 6.9, see pidfd_open(2)).
func pidfdInode() uint64 {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	var fsInfo unix.Statfs_t
	if err := unix.Fstatfs(fd, &fsInfo); err != nil || fsInfo.Type != unix.PID_FS_MAGIC {
		return 0
	}
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil {
		return 0
	}
	return info.Ino
}
