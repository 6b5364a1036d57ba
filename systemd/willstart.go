package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// WillStart asks systemd, from an ExecStopPost= command of a unit, whether the
// unit is going to be started again: because somebody restarts it, or because
// Restart= says so after what $SERVICE_RESULT tells, which is result. user is for
// units of a user's own manager. It runs systemctl(1), and blocks as long as that
// does; ctx ends it.
func WillStart(ctx context.Context, unit string, user bool, result string) (bool, error) {
	job, err := jobOf(ctx, unit, user)
	if err != nil {
		return false, err
	}
	switch job {
	case "restart", "try-restart", "start":
		return true, nil
	case "":
	default: // stop, above all
		return false, nil
	}
	out, err := systemctl(ctx, user, "show", "--property=Restart", "--value", unit)
	if err != nil {
		return false, err
	}
	return restarts(strings.TrimSpace(out), result), nil
}

// restarts reports whether Restart= brings a unit back, as the table in
// systemd.service(5) has it.
func restarts(restart, result string) bool {
	switch restart {
	case "always":
		return true
	case "on-success":
		return result == "success"
	case "on-failure":
		return result != "success"
	case "on-abnormal":
		return result != "success" && result != "exit-code"
	case "on-abort":
		return result == "signal" || result == "core-dump"
	case "on-watchdog":
		return result == "watchdog"
	}
	return false
}

// jobOf returns the type of the job that waits or runs for a unit, "" for none.
func jobOf(ctx context.Context, unit string, user bool) (string, error) {
	out, err := systemctl(ctx, user, "list-jobs", "--no-legend", "--plain")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		// 123 svc.service restart running
		if fields := strings.Fields(line); len(fields) >= 3 && fields[1] == unit {
			return fields[2], nil
		}
	}
	return "", nil
}

func systemctl(ctx context.Context, user bool, args ...string) (string, error) {
	if user {
		args = append([]string{"--user"}, args...)
	}
	cmd := exec.CommandContext(ctx, "systemctl", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		if text := strings.TrimSpace(stderr.String()); text != "" {
			err = errors.New(text)
		}
		return "", fmt.Errorf("ask systemd: %w", err)
	}
	return string(out), nil
}
