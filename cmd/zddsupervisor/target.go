package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// target says which supervisor a command is meant for.
type target struct {
	name, path string
}

func (t *target) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.name, "name", "", "the supervisor's name (default: the only one that runs)")
	cmd.Flags().StringVar(&t.path, "control", "", "the path of its control socket, or of its runtime directory, instead of its name")
}

// client returns a client of the supervisor that is meant.
func (t *target) client() (*control.Client, error) {
	path := t.path
	if path != "" && t.name != "" {
		return nil, usageError{errors.New("--name and --control both say which supervisor is meant; give one of them")}
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, control.SocketName)
	}
	if path == "" {
		var err error
		if path, err = t.find(); err != nil {
			return nil, err
		}
	}
	return control.NewClient(path), nil
}

// find finds the control socket: by name where there is one, else the only one that answers.
func (t *target) find() (string, error) {
	bases := runtimeBases()
	if t.name == "" {
		path, err := control.Find(bases)
		if errors.Is(err, control.ErrNotRunning) && withoutRuntimeDirectory() {
			err = fmt.Errorf("%w; XDG_RUNTIME_DIR is not set, so one of this user's own has a --runtime-directory: give that as --control", err)
		}
		return path, err
	}
	if err := systemd.CheckName(t.name); err != nil { // it is a part of a path
		return "", usageError{fmt.Errorf("--name: %w", err)}
	}
	for _, base := range bases {
		path := filepath.Join(base, t.name, control.SocketName)
		if _, err := os.Lstat(path); err == nil {
			return path, nil
		}
	}
	return filepath.Join(bases[0], t.name, control.SocketName), nil // and the client says that nobody is there
}

// runtimeBases are the directories below which supervisors have their runtime directories.
func runtimeBases() []string {
	var bases []string
	if xdg := os.Getenv("XDG_RUNTIME_DIR"); xdg != "" && os.Geteuid() != 0 {
		bases = append(bases, filepath.Join(xdg, "zddsupervisor"))
	}
	return append(bases, "/run/zddsupervisor")
}

// withoutRuntimeDirectory reports whether this user has no directory for the sockets of supervisors.
func withoutRuntimeDirectory() bool { return os.Geteuid() != 0 && os.Getenv("XDG_RUNTIME_DIR") == "" }
