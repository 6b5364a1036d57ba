package child

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
)

// Left returns the processes that were started with a NOTIFY_SOCKET that begins with notify, in ascending order: what
// supervisors with that directory have started, as far as this process may look.
func Left(notify string) ([]int, error) {
	prefix := notifyEntry(notify)
	ids, err := withEnv(func(entry string) bool { return strings.HasPrefix(entry, prefix) }, nil)
	return pidsOf(ids), err
}

// KillLeft kills the processes that descend from this one and were started with the environment entry, such as what a
// process that was killed has left behind, and returns how many those were. It blocks until nobody is left or ctx ends.
// Orphans fall to this process only under a Reaper that is not for OwnChildrenOnly.
func KillLeft(ctx context.Context, entry string) (killed int, err error) {
	for {
		ids, err := withEnv(func(e string) bool { return e == entry }, descendsFromUs)
		if err != nil || len(ids) == 0 {
			return killed, err
		}
		killed += len(ids)
		if err := killRoundOf(ctx, ids); err != nil {
			return killed, err
		}
	}
}

// withEnv finds the living processes, but for this one, that were started with an environment entry that fits, and, unless
// also is nil, are as that says.
func withEnv(fits func(entry string) bool, also func(procStat, func(pid int) (procStat, bool)) bool) ([]procID, error) {
	all, err := snapshot()
	if err != nil {
		return nil, err
	}
	look := func(pid int) (procStat, bool) {
		st, ok := all[pid]
		return st, ok
	}
	var ids []procID
	for pid, st := range all {
		if pid == os.Getpid() || st.dead || also != nil && !also(st, look) {
			continue
		}
		if slices.ContainsFunc(environOf(pid), fits) {
			ids = append(ids, st.procID)
		}
	}
	slices.SortFunc(ids, func(a, b procID) int { return a.pid - b.pid })
	return ids, nil
}

// environOf returns what a process was started with, as far as this process may look. Programs that overwrite their
// environment, to set their title, lose it.
func environOf(pid int) (entries []string) {
	b, err := readProc(pid, "environ", make([]byte, 16<<10))
	if err == nil && len(b) == 16<<10 {
		b, err = readProc(pid, "environ", make([]byte, 512<<10))
	}
	if err != nil {
		return nil
	}
	for one := range bytes.SplitSeq(b, []byte{0}) {
		entries = append(entries, string(one))
	}
	return entries
}
