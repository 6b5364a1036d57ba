package child

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// shimTasks is more than the threads of a shim: with fewer to spare, it cannot start.
const shimTasks = 8

// exhausted names the limit on processes that this process has reached, or all but reached, as a clause; "" if it finds none.
// The kernel says EAGAIN for all of them. Tasks, as it counts them, are threads.
func exhausted() string {
	cgroups, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, dir := range pidsCgroups(string(cgroups), string(mounts)) {
		if most, now := readNumber(filepath.Join(dir, "pids.max")), readNumber(filepath.Join(dir, "pids.current")); reached(now, most) {
			return fmt.Sprintf("the cgroup %s may have %d tasks and has %d (pids.max; TasksMax= in the unit)", dir, most, now)
		}
	}
	var own unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NPROC, &own) == nil && own.Cur != unix.RLIM_INFINITY && os.Getuid() != 0 { // root is not held to it
		if now := tasksOf(os.Getuid()); reached(now, int(own.Cur)) {
			return fmt.Sprintf("the user %d may have %d tasks and has %d (RLIMIT_NPROC; LimitNPROC= in the unit)", os.Getuid(), own.Cur, now)
		}
	}
	all := -1
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		if fields := strings.Fields(string(b)); len(fields) > 3 {
			_, total, _ := strings.Cut(fields[3], "/")
			all = number(total)
		}
	}
	for _, name := range []string{"threads-max", "pid_max"} {
		if most := readNumber("/proc/sys/kernel/" + name); reached(all, most) {
			return fmt.Sprintf("the system may have %d tasks and has %d (kernel.%s)", most, all, name)
		}
	}
	return ""
}

// reached says whether no room is left for a shim. Numbers that are not known are negative.
func reached(now, most int) bool { return now >= 0 && most >= 0 && now+shimTasks > most }

// pidsCgroups returns the directories of the cgroups that may limit the number of this process's tasks, the innermost first,
// from the texts of /proc/self/cgroup and /proc/self/mountinfo. It knows both versions, see cgroups(7).
func pidsCgroups(cgroups, mounts string) (dirs []string) {
	for line := range strings.Lines(cgroups) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy, controllers, path
		if len(parts) != 3 {
			continue
		}
		kind, option := "cgroup2", ""
		if parts[0] != "0" {
			if kind, option = "cgroup", "pids"; !slices.Contains(strings.Split(parts[1], ","), option) {
				continue
			}
		}
		root, at := findMount(mounts, kind, option)
		if at == "" {
			continue
		}
		inner := strings.TrimPrefix(parts[2], strings.TrimSuffix(root, "/"))
		for {
			dirs = append(dirs, filepath.Join(at, inner))
			if inner == "/" || inner == "" || inner == "." {
				break
			}
			inner = path.Dir(inner)
		}
	}
	return dirs
}

// findMount returns the root and the place of the last mount of a kind, with an option of its own unless that is "".
func findMount(mounts, kind, option string) (root, at string) {
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(line, " - ") // see proc_pid_mountinfo(5)
		fields, special := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(special) < 3 || special[0] != kind {
			continue
		}
		if option == "" || slices.Contains(strings.Split(special[2], ","), option) {
			root, at = fields[3], fields[4]
		}
	}
	return root, at
}

// tasksOf counts the threads of a user's processes.
func tasksOf(uid int) (n int) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return -1
	}
	for _, dir := range dirs {
		var st unix.Stat_t
		if unix.Stat(dir, &st) != nil || int(st.Uid) != uid {
			continue
		}
		if threads, err := os.ReadDir(filepath.Join(dir, "task")); err == nil {
			n += len(threads)
		}
	}
	return n
}

// readNumber reads a file that has a number; -1 if it has none, such as "max".
func readNumber(file string) int {
	b, err := os.ReadFile(file)
	if err != nil {
		return -1
	}
	return number(string(b))
}

func number(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return -1
	}
	return n
}
