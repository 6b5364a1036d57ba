package upgrade

import (
	"time"

	"golang.org/x/sys/unix"
)

// A moment is a time by CLOCK_MONOTONIC, which all processes of a boot have in common and nobody can set; 0 is none. The next
// supervisor counts from it how long something has lasted: a time of day that was written down would make that wrong once
// the clock is set.
type moment time.Duration

// A clock turns moments into times of this process and back.
type clock struct {
	wall time.Time // with its monotonic reading, which package time does not tell
	mono moment    // the same
}

func newClock() clock {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // which every kernel has
	return clock{time.Now(), moment(ts.Nano())}
}

// moment returns the moment of a time of this process, the same at each call.
func (c clock) moment(t time.Time) moment {
	if t.IsZero() {
		return 0
	}
	return c.mono + moment(t.Sub(c.wall))
}

// time returns the time of a moment. What of it is shown is the time of day as the clock has it now.
func (c clock) time(m moment) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return c.wall.Add(time.Duration(m - c.mono))
}
