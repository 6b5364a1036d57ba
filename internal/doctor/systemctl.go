package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// systemctl runs systemctl(1) and returns what it writes.
func systemctl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "systemctl", args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "SYSTEMD_COLORS=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		if text := strings.TrimSpace(stderr.String()); text != "" {
			err = errors.New(text)
		}
		return "", fmt.Errorf("systemctl %s: %w", args[0], err)
	}
	return string(out), nil
}

// Versions of systemd that matter.
const (
	notifyReload = 253 // Type=notify-reload
	storeIsTold  = 254 // FDSTORE in the environment
)

// manager looks at the service manager, and returns the version of systemd, or 0.
func manager(ctx context.Context, r *report) int {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		r.add(Warns, "systemd does not run here", "nobody starts the supervisor again, and keeps its sockets, if it is killed", "run the supervisor under systemd, or under something else that starts it again")
		return 0
	}
	out, err := systemctl(ctx, "--version")
	if err != nil {
		r.add(Unseen, fmt.Sprintf("the version of systemd: %v", err), "", "")
		return 0
	}
	version := versionOf(out)
	managerVersion(r, version)
	return version
}

// versionOf reads "systemd 257 (257.13-1)".
func versionOf(out string) int {
	fields := strings.Fields(out)
	if len(fields) < 2 {
		return 0
	}
	digits, _, _ := strings.Cut(fields[1], ".")
	version, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return version
}

// managerVersion says what a version of systemd lacks.
func managerVersion(r *report, version int) {
	is := fmt.Sprintf("systemd is of version %d", version)
	switch {
	case version == 0:
		r.add(Unseen, "the version of systemd is not known", "", "")
	case version < notifyReload:
		r.add(Warns, is+", which does not know Type=notify-reload, and does not say whether it keeps sockets",
			"systemd ignores that line, and does not wait until the service is ready; sockets are taken from the service if the supervisor is killed",
			"zddsupervisor unit --portable, for the unit")
	case version < storeIsTold:
		r.add(Warns, is+", which does not say whether it keeps sockets", "sockets are taken from the service if the supervisor is killed, and closed with it at a restart", "systemd 254 or later")
	default:
		r.fine(is)
	}
}

// parseSpan reads a time as systemctl(1) shows it: "1min 30s", "infinity".
func parseSpan(text string) (d time.Duration, infinite bool, err error) {
	if text == "infinity" {
		return 0, true, nil
	}
	units := map[string]time.Duration{
		"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "min": time.Minute, "h": time.Hour,
		"d": 24 * time.Hour, "w": 7 * 24 * time.Hour, "month": 2629800 * time.Second, "y": 31557600 * time.Second,
	}
	for _, part := range strings.Fields(text) {
		number := strings.TrimRight(part, "abcdefghijklmnopqrstuvwxyz")
		n, parseErr := strconv.ParseFloat(number, 64)
		unit, ok := units[part[len(number):]]
		if parseErr != nil || !ok && part != "0" {
			return 0, false, fmt.Errorf("%q is not a time", text)
		}
		d += time.Duration(n * float64(unit))
	}
	return d, false, nil
}
