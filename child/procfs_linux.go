package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// A procID names a process for good: a pid is used again, but not with the same
// start time, in clock ticks since boot.
type procID struct {
	pid   int
	start uint64
}

// A procStat is what /proc/PID/stat tells, see proc_pid_stat(5).
type procStat struct {
	procID
	ppid    int
	session int
	exiting bool // its first thread has begun to exit: it will not run the program any more
	dead    bool // a zombie, or less: it does nothing any more
}

// exitingFlag is PF_EXITING of linux/sched.h: set before the descriptors are closed.
const exitingFlag = 0x4

// parseStat reads the text of a /proc/PID/stat.
func parseStat(b []byte) (procStat, error) {
	// The name in parentheses is the program's own choice and may contain
	// parentheses, spaces and newlines; what follows the last one does not.
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 1 || end < open {
		return procStat{}, errors.New("no name in parentheses")
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:open])))
	if err != nil || pid < 1 {
		return procStat{}, fmt.Errorf("pid %q", b[:open])
	}
	// Field 3 of the manual page is rest[0].
	rest := bytes.Fields(b[end+1:])
	if len(rest) < 20 || len(rest[0]) != 1 {
		return procStat{}, errors.New("too few fields")
	}
	var numbers [3]int
	for i, field := range []int{4, 6, 20} {
		if numbers[i], err = strconv.Atoi(string(rest[field-3])); err != nil {
			return procStat{}, fmt.Errorf("field %d: %w", field, err)
		}
	}
	flags, err := strconv.ParseUint(string(rest[9-3]), 10, 64)
	if err != nil {
		return procStat{}, fmt.Errorf("field 9: %w", err)
	}
	start, err := strconv.ParseUint(string(rest[22-3]), 10, 64)
	if err != nil {
		return procStat{}, fmt.Errorf("field 22: %w", err)
	}
	// A process whose first thread has ended is shown as a zombie as well, while
	// its other threads run on.
	state, threads := rest[0][0], numbers[2]
	return procStat{
		procID:  procID{pid: pid, start: start},
		ppid:    numbers[0],
		session: numbers[1],
		exiting: flags&exitingFlag != 0,
		dead:    (state == 'Z' || state == 'X' || state == 'x') && threads <= 1,
	}, nil
}

// readStat looks at one process; os.ErrNotExist if there is none.
func readStat(pid int) (procStat, error) {
	var buf [1024]byte
	b, err := readProc(pid, "stat", buf[:])
	if err != nil {
		return procStat{}, err
	}
	st, err := parseStat(b)
	if err != nil {
		return procStat{}, fmt.Errorf("parse /proc/%d/stat: %w", pid, err)
	}
	return st, nil
}

// StartTime returns when the process pid was started, as Process.StartTime has it;
// os.ErrNotExist if there is none.
func StartTime(pid int) (uint64, error) {
	st, err := readStat(pid)
	return st.start, err
}

// snapshot looks at all processes. It is not one instant: a process that forks
// meanwhile may be missed.
func snapshot() (map[int]procStat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	dir.Close()
	if err != nil {
		return nil, fmt.Errorf("list /proc: %w", err)
	}
	all := make(map[int]procStat, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		st, err := readStat(pid)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			// Without it somebody could be taken for gone who is not.
			return nil, err
		}
		all[pid] = st
	}
	return all, nil
}

// hasEnv says whether a process was started with the environment entry, as far
// as this process may look.
func hasEnv(pid int, entry string) bool { return slices.Contains(environOf(pid), entry) }

// readProc reads a file of a process into buf and returns the part that is
// filled; os.ErrNotExist if the process is gone. An *os.File would cost three
// times the system calls, and there may be thousands to read.
func readProc(pid int, name string, buf []byte) ([]byte, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/" + name
	fd, err := ignoringEINTR(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	n := 0
	for n < len(buf) {
		m, err := ignoringEINTR(func() (int, error) { return unix.Read(fd, buf[n:]) })
		if errors.Is(err, unix.ESRCH) {
			err = unix.ENOENT // it went between open and read
		}
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		if m == 0 {
			break
		}
		n += m
	}
	return buf[:n], nil
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
