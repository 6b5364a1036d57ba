package systemd

import (
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// WatchdogEvery returns how often Notifier.Watchdog is to be called: twice in
// each WatchdogSec= of the unit, as sd_watchdog_enabled(3) recommends. It is 0
// if nobody watches this process. It removes WATCHDOG_USEC and WATCHDOG_PID from
// the environment, so a second call returns 0.
func WatchdogEvery() (time.Duration, error) {
	limit, err := daemon.SdWatchdogEnabled(true)
	return limit / 2, err
}
