package control

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// told is what a log was told, for several goroutines.
type told struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *told) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *told) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

// answers waits until the socket at path answers.
func answers(t *testing.T, path string) {
	t.Helper()
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, err = NewClient(path).Status(t.Context()); err == nil {
			return
		}
	}
	t.Fatalf("nobody answers: %v", err)
}

// However the socket goes away, it is made again, private and with its directory locked, and that is said.
func TestMadeAgain(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(path string) error{
		"the file":              os.Remove,
		"the file, moved":       func(path string) error { return os.Rename(path, path+".moved") },
		"the directory":         func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"the directory, moved":  func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".moved") },
		"what it is in, though": func(path string) error { return os.RemoveAll(filepath.Dir(filepath.Dir(path))) },
		"a stranger's in its place": func(path string) error {
			other, _, err := bindSocket(path)
			if err == nil {
				err = other.Close()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, err := os.MkdirTemp("", "zdd-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(base) })
			path := filepath.Join(base, "zdd", "svc", SocketName)
			if err := MakeDirectory(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
			var log told
			serveAt(t, path, &fakeService{}, slog.New(slog.NewTextHandler(&log, nil)))
			for n := 1; n <= 2; n++ {
				if err := remove(path); err != nil {
					t.Fatal(err)
				}
				os.RemoveAll(path + ".moved")
				os.RemoveAll(filepath.Dir(path) + ".moved")
				answers(t, path)
				// It answers before that is said.
				for end := time.Now().Add(10 * time.Second); log.count("made again") < n && time.Now().Before(end); time.Sleep(time.Millisecond) {
				}
				if got := log.count("made again"); got != n {
					t.Errorf("it was said %d times, after %d", got, n)
				}
			}
			if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the file: %v, %v", info, err)
			}
			if _, err := Listen(path); !errors.Is(err, ErrInUse) {
				t.Errorf("another supervisor: %v", err)
			}
		})
	}
}

// What is no socket is left where it is, which is said once; once it is gone, the socket is made again.
func TestNotMadeAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, SocketName)
	var log told
	serveAt(t, path, &fakeService{}, slog.New(slog.NewTextHandler(&log, nil)))
	mine := filepath.Join(dir, "mine")
	if err := errors.Join(os.WriteFile(mine, []byte("mine"), 0o600), os.Rename(mine, path)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); log.count("cannot be made again") == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nothing is said")
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("the file: %q, %v", b, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	answers(t, path)
	if n := log.count("level=ERROR"); n != 2 {
		t.Errorf("%d errors", n)
	}
}

// A directory that is temporary goes with the socket, unless something is in it, and nobody who comes just then fails.
func TestTemporary(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	path := filepath.Join(base, "svc", SocketName)
	for range 200 {
		l, err := Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		l.Temporary()
		came := make(chan error)
		go func() {
			err := ErrInUse
			for errors.Is(err, ErrInUse) {
				var next *Listener
				if next, err = Listen(path); err == nil {
					next.Temporary()
					err = next.Close()
				}
			}
			came <- err
		}()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-came; err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
