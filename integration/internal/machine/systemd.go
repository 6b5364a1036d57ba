package machine

import (
	"context"
	"fmt"
	"strings"
)

// InstallUnit writes a unit of the machine's systemd and makes it known there.
func (m *Machine) InstallUnit(ctx context.Context, name, text string) error {
	if err := m.WriteFile(ctx, "/etc/systemd/system/"+name, []byte(text), 0o644); err != nil {
		return err
	}
	_, err := m.Output(ctx, "systemctl", "daemon-reload")
	return err
}

// Show returns properties of a unit by name. A property that systemd does not know is missing.
func (m *Machine) Show(ctx context.Context, unit string, properties ...string) (map[string]string, error) {
	out, err := m.Output(ctx, "systemctl", "show", "--property="+strings.Join(properties, ","), "--", unit)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			values[key] = value
		}
	}
	return values, nil
}

// Journal returns what the journal has of a unit since boot, and what its processes wrote; of everything if unit is empty.
func (m *Machine) Journal(ctx context.Context, unit string) (string, error) {
	argv := []string{"journalctl", "--boot", "--output=short-monotonic", "--no-hostname", "--no-pager", "--all"}
	if unit != "" {
		argv = append(argv, "--unit="+unit)
	}
	// Without this the last lines may still be on their way.
	if r, err := m.Run(ctx, "journalctl", "--sync"); err != nil || r.Status != 0 {
		return "", fmt.Errorf("sync the journal: %s: %w", r, err)
	}
	return m.Output(ctx, argv...)
}
