package child

import (
	"fmt"
	"slices"
	"strings"
)

// shellHint says what is wrong with a service behind a shell that does not exec it,
// the most common reason for a signal that does not come: LISTEN_PID is then that
// of the shell. It is "" where that is not the case.
func shellHint(p *Process) string {
	b, err := readProc(p.Pid(), "comm", make([]byte, 64))
	if err != nil {
		return ""
	}
	name := strings.TrimSpace(string(b))
	if !slices.Contains([]string{"sh", "dash", "bash", "ash", "busybox", "ksh", "zsh"}, name) {
		return ""
	}
	all, err := snapshot()
	if err != nil {
		return ""
	}
	for _, st := range all {
		if st.ppid == p.Pid() && !st.dead {
			return fmt.Sprintf("its main process is the shell %q and the service a child of that, which LISTEN_PID does not name: put exec before the service's command", name)
		}
	}
	return ""
}
