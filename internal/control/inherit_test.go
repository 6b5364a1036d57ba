package control

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// Whoever takes a control socket over takes another file at its path for what it is, and makes the socket again.
func TestInheritWithAnotherFile(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]bool{"its own": false, "a stranger's": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), SocketName)
			l, err := Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			l.Tend(slog.New(slog.DiscardHandler))
			parts, file, err := l.Files()
			if err != nil {
				t.Fatal(err)
			}
			if remove {
				mine := path + ".mine"
				if err := errors.Join(os.WriteFile(mine, nil, 0o600), os.Rename(mine, path)); err != nil {
					t.Fatal(err)
				}
			}
			l.Leave()
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			next, err := Inherit(parts, &file)
			if err != nil {
				t.Fatal(err)
			}
			if next.present() == remove {
				t.Errorf("the file is taken for its own: %t", next.present())
			}
			if err := next.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(path); (err == nil) != remove {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}
