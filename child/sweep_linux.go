package child

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// controlLeaf is where systemd runs ExecStopPost= and the like in a unit with Delegate=yes.
const controlLeaf = ".control"

// Sweep kills the processes that a supervisor which is gone has left behind in its unit's cgroup, and returns how many
// those were. It is for ExecStopPost= of that unit, and for a supervisor that cannot take them over: this process is in
// the cgroup too, and is spared. Where this process is in a cgroup that is no unit's, nothing is touched. It blocks
// until nobody is left or ctx ends.
func Sweep(ctx context.Context) (int, error) {
	unit, err := unitCgroup("/proc/self/cgroup", "/proc/self/mountinfo")
	if unit == "" || err != nil {
		return 0, err
	}
	entries, err := os.ReadDir(unit)
	if err != nil {
		return 0, fmt.Errorf("list the unit's cgroup: %w", err)
	}
	own := ""
	if b, err := os.ReadFile("/proc/self/cgroup"); err == nil {
		if inner, ok := cgroupOf(b); ok {
			own = path.Base(inner) // that of a supervisor, which has moved into it
		}
	}
	killed := 0
	for _, e := range entries {
		if !e.IsDir() || e.Name() == controlLeaf || e.Name() == own {
			continue
		}
		c, err := openCgroup(filepath.Join(unit, e.Name()), "")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return killed, err
		}
		pids, err := c.pids()
		killed += len(pids)
		if err == nil {
			err = c.Kill()
		}
		if err == nil {
			err = c.Empty(ctx)
		}
		if err = errors.Join(err, c.Remove()); err != nil {
			return killed, err
		}
	}
	more, err := sweepFlat(ctx, unit)
	return killed + more, err
}

// Unit returns the name of the unit of which this process is a control process, such as that of ExecStopPost=, and
// whether it is one of a user's own manager. The name is "" if there is none.
func Unit() (name string, user bool, err error) {
	unit, err := unitCgroup("/proc/self/cgroup", "/proc/self/mountinfo")
	if unit == "" || err != nil {
		return "", false, err
	}
	return path.Base(unit), strings.Contains(unit, "/user@"), nil
}

// sweepFlat kills who is in the unit's cgroup itself, where no generation has one of its own.
func sweepFlat(ctx context.Context, unit string) (int, error) {
	killed := 0
	for {
		pids, err := readPids(filepath.Join(unit, "cgroup.procs"))
		if err != nil {
			return killed, err
		}
		var ids []procID
		for _, pid := range pids {
			if st, err := readStat(pid); err == nil && pid != os.Getpid() && !st.dead {
				ids = append(ids, st.procID)
			}
		}
		if len(ids) == 0 {
			return killed, nil
		}
		killed += len(ids)
		if err := killRoundOf(ctx, ids); err != nil {
			return killed, err
		}
	}
}

// unitCgroup returns the directory of the cgroup of the unit that this process is a control process of, or "".
func unitCgroup(cgroupFile, mountinfoFile string) (string, error) {
	b, err := os.ReadFile(cgroupFile)
	if err != nil {
		return "", fmt.Errorf("find our cgroup: %w", err)
	}
	inner, ok := cgroupOf(b)
	if !ok {
		return "", nil
	}
	if path.Base(inner) == controlLeaf || path.Base(inner) == supervisorLeaf {
		inner = path.Dir(inner)
	}
	if !strings.HasSuffix(inner, ".service") {
		return "", nil
	}
	if b, err = os.ReadFile(mountinfoFile); err != nil {
		return "", fmt.Errorf("find where cgroups are mounted: %w", err)
	}
	root, ok := cgroupMount(b)
	if !ok {
		return "", nil
	}
	return filepath.Join(root, inner), nil
}
