package child_test

import (
	"slices"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/child"
)

func TestCleanEnv(t *testing.T) {
	t.Parallel()
	env := []string{
		"PATH=/bin", "LISTEN_PID=1", "LISTEN_PIDFDID=2", "LISTEN_FDS=3", "LISTEN_FDNAMES=a", "NOTIFY_SOCKET=/x",
		"WATCHDOG_PID=1", "WATCHDOG_USEC=2", "FDSTORE=3", "MAINPID=4", "MAINPIDFDID=5", "ZDDSUPERVISOR_SHIM_FD=6", "ZDD_SUCCESSOR=7-x",
		"LISTEN_FDS", "LISTEN_FDSX=1", "XLISTEN_FDS=1", "INVOCATION_ID=7", "", "=x",
	}
	before := slices.Clone(env)
	want := []string{"PATH=/bin", "LISTEN_FDSX=1", "XLISTEN_FDS=1", "INVOCATION_ID=7", "", "=x"}
	if got := child.CleanEnv(env); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !slices.Equal(env, before) {
		t.Errorf("the argument became %q", env)
	}
	if got := child.CleanEnv(nil); len(got) != 0 {
		t.Errorf("nothing became %q", got)
	}
}
