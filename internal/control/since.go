package control

import (
	"os"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// Started returns when this process was started, as upgrade.Request.Since has it, or 0 if that cannot be told. It is for a
// command that does nothing but ask once: what such a command wants was so when it was started.
func Started() uint64 {
	since, err := child.StartTime(os.Getpid())
	if err != nil {
		return 0
	}
	return since
}
