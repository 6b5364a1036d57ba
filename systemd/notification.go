package systemd

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrMalformed is returned for a datagram that is not a notification.
var ErrMalformed = errors.New("malformed notification")

// A Notification is what one datagram says, in the meaning of sd_notify(3).
// Fields that it does not have, or whose value makes no sense, are zero; so are
// those that are only a manager's business (MAINPID, FDSTORE and so on), and
// keys that are not known.
type Notification struct {
	Ready     bool // READY=1
	Reloading bool // RELOADING=1
	Stopping  bool // STOPPING=1

	// Status is the STATUS, and HasStatus says whether there is one: an empty
	// one takes back the last.
	Status    string
	HasStatus bool

	// ExtendTimeout is how long the sender asks for from now on
	// (EXTEND_TIMEOUT_USEC).
	ExtendTimeout time.Duration

	Watchdog        bool          // WATCHDOG=1: still alive
	WatchdogTrigger bool          // WATCHDOG=trigger: to be treated as if no longer alive
	WatchdogTimeout time.Duration // WATCHDOG_USEC: must say so this often from now on

	// Errno is the error number with which the sender failed (ERRNO).
	Errno int

	// Barrier asks for the descriptor that came along to be closed once all
	// earlier notifications have been handled (BARRIER=1). It comes alone.
	Barrier bool
}

// Parse reads one datagram: lines of KEY=VALUE. Of two lines with one key the
// first counts. A datagram that is empty or longer than 4096 bytes, that has a
// NUL before its last byte, or anything beside BARRIER=1, is ErrMalformed. Parse
// does not keep datagram.
func Parse(datagram []byte) (Notification, error) {
	// systemd too forgives the NUL of a C string that was sent whole.
	text := bytes.TrimSuffix(datagram, []byte{0})
	if len(text) == 0 || len(datagram) > maxDatagram || bytes.IndexByte(text, 0) >= 0 {
		return Notification{}, ErrMalformed
	}
	lines := strings.Split(string(text), "\n")
	var n Notification
	for i := len(lines) - 1; i >= 0; i-- { // backwards, so that the first counts
		n.set(lines[i])
	}
	if n.Barrier && strings.Trim(string(text), "\n") != "BARRIER=1" {
		return Notification{}, ErrMalformed
	}
	return n, nil
}

// set takes in one line.
func (n *Notification) set(line string) {
	key, value, _ := strings.Cut(line, "=")
	switch key {
	case "READY":
		n.Ready = n.Ready || value == "1"
	case "RELOADING":
		n.Reloading = n.Reloading || value == "1"
	case "STOPPING":
		n.Stopping = n.Stopping || value == "1"
	case "STATUS":
		if utf8.ValidString(value) {
			n.Status, n.HasStatus = value, true
		}
	case "EXTEND_TIMEOUT_USEC":
		n.ExtendTimeout = microseconds(value, n.ExtendTimeout)
	case "WATCHDOG":
		n.Watchdog = n.Watchdog || value == "1"
		n.WatchdogTrigger = n.WatchdogTrigger || value == "trigger"
	case "WATCHDOG_USEC":
		n.WatchdogTimeout = microseconds(value, n.WatchdogTimeout)
	case "ERRNO":
		if errno, err := strconv.ParseUint(value, 10, 12); err == nil { // the kernel has fewer than 4096
			n.Errno = int(errno)
		}
	case "BARRIER":
		n.Barrier = n.Barrier || value == "1"
	}
}

// microseconds reads a number of microseconds, or returns otherwise if it is
// none. One that is too large for a Duration gives the largest.
func microseconds(text string, otherwise time.Duration) time.Duration {
	usec, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return otherwise
	}
	if usec > math.MaxInt64/uint64(time.Microsecond) {
		return math.MaxInt64
	}
	return time.Duration(usec) * time.Microsecond
}
