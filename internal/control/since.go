package control

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// Started returns when this process was started, as upgrade.Request.Since has it (the 22nd field of /proc/PID/stat, see
// proc_pid_stat(5)), or 0 if that cannot be told. It is for a command that does nothing but ask once: what such a command
// wants was so when it was started.
func Started() uint64 {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	// The name in parentheses may have anything in it; the third field follows it.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return 0
	}
	since, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0
	}
	return since
}
