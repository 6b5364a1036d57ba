package child

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestExplainFork(t *testing.T) {
	t.Parallel()
	for errno, want := range map[syscall.Errno]string{
		unix.EAGAIN: "pids.max",
		unix.ENOMEM: "not enough memory",
		unix.EMFILE: "too many files open",
		unix.ENFILE: "too many files open",
		unix.ENOENT: "is /proc mounted?",
		unix.EBUSY:  "device or resource busy",
	} {
		if got := explainFork(errno); !strings.Contains(got, want) {
			t.Errorf("%v: %s", errno, got)
		}
	}
}

func TestLimitNames(t *testing.T) {
	t.Parallel()
	if got := limitName(unix.RLIMIT_NPROC) + " " + limitName(99) + " " + limitValue(7) + " " + limitValue(unix.RLIM_INFINITY); got != "RLIMIT_NPROC number 99 7 infinity" {
		t.Error(got)
	}
}
