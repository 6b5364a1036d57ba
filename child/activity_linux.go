package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
)

// Activity is what the threads of a tree were seen to do.
type Activity int

const (
	// Active says that one of them may have run all the time, or waited for a processor.
	Active Activity = iota
	// Stopped says that one of them does not run because a signal or a debugger has stopped it, see signal(7) and ptrace(2).
	Stopped
	// Asleep says that there was a moment at which all of them slept in the kernel until something happens: nothing that had
	// woken one of them before was still to be acted on.
	Asleep
)

// Activity looks twice at each thread of each member, and does not wait in between. A thread that sleeps both times, and has
// not run meanwhile by the kernel's count of its context switches (proc_pid_status(5)), has slept all along.
func (t *Tree) Activity() (Activity, error) {
	ids, err := t.scan()
	if err != nil {
		return Active, err
	}
	before, activity, err := threadsOf(ids)
	if err != nil || activity != Asleep {
		return activity, err
	}
	after, activity, err := threadsOf(ids)
	if err != nil || activity != Asleep {
		return activity, err
	}
	if !slices.Equal(before, after) {
		return Active, nil
	}
	return Asleep, nil
}

// A thread is one that sleeps.
type thread struct {
	id       string
	switches string // of its context, both kinds
}

// threadsOf looks at every thread of the processes. It stops at the first that does not sleep.
func threadsOf(ids []procID) (threads []thread, activity Activity, err error) {
	var buf [16 << 10]byte // whoever is in many groups has a long one
	for _, id := range ids {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", id.pid))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, Active, err
		}
		for _, e := range entries {
			text, err := readProc(id.pid, "task/"+e.Name()+"/status", buf[:])
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, Active, err
			}
			switch state := statusField(text, "State:"); {
			case bytes.HasPrefix(state, []byte("S")):
			case bytes.HasPrefix(state, []byte("T")), bytes.HasPrefix(state, []byte("t")):
				return nil, Stopped, nil
			case bytes.HasPrefix(state, []byte("Z")), bytes.HasPrefix(state, []byte("X")):
				continue
			default:
				return nil, Active, nil
			}
			switches := switchesOf(text)
			if switches == "" { // nobody knows
				return nil, Active, nil
			}
			threads = append(threads, thread{e.Name(), switches})
		}
	}
	return threads, Asleep, nil
}

// switchesOf returns how often a thread's context was switched, of both kinds; "" if /proc/PID/task/TID/status does not say it.
func switchesOf(status []byte) string {
	voluntary, forced := statusField(status, "voluntary_ctxt_switches:"), statusField(status, "nonvoluntary_ctxt_switches:")
	if len(voluntary) == 0 || len(forced) == 0 {
		return ""
	}
	return string(voluntary) + " " + string(forced)
}

// statusField returns the value of a line of /proc/PID/status.
func statusField(text []byte, name string) []byte {
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, []byte(name)); ok {
			return bytes.TrimSpace(value)
		}
	}
	return nil
}
