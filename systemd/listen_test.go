package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestListenTakesOverStaleSocket(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	dead, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	dead.Close() // leaves its file
	r := listen(t, path)
	send(t, dial(t, path), "READY=1")
	if !receive(t, r).Ready {
		t.Error("not the socket that was bound")
	}
	if _, err := Listen(path, 0o600); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("second Listen: %v, want EADDRINUSE", err)
	}
	send(t, dial(t, path), "READY=1") // the first one still has its file
}

func TestListenLeavesOtherFiles(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, 0o600); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("Listen: %v, want EADDRINUSE", err)
	}
	if data, err := os.ReadFile(path); string(data) != "precious" {
		t.Errorf("the file is now %q, %v", data, err)
	}
}

func TestCloseLeavesOthersSocket(t *testing.T) {
	t.Parallel()
	path := socketPath(t)
	first := listen(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	second := listen(t, path)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	send(t, dial(t, path), "READY=1")
	receive(t, second)
}

func TestListenErrors(t *testing.T) {
	t.Parallel()
	if _, err := Listen("/"+strings.Repeat("x", 107), 0o600); !errors.Is(err, ErrAddress) {
		t.Errorf("long path: %v, want ErrAddress", err)
	}
	if _, err := Listen(filepath.Join(shortDir(t), "none", "notify"), 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v, want fs.ErrNotExist", err)
	}
	dir := shortDir(t)
	longest := filepath.Join(dir, strings.Repeat("x", 107-len(dir)-1))
	r, err := Listen(longest, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	send(t, dial(t, longest), "READY=1")
	receive(t, r)
}

// umaskHelper prints the mode of sockets under an umask of its own, which
// belongs to the whole process.
func umaskHelper() error {
	unix.Umask(0o027)
	for i, mode := range []fs.FileMode{0o600, 0o666, 0o622, 0} {
		path := os.Getenv("NOTIFY_SOCKET") + strconv.Itoa(i)
		r, err := Listen(path, mode)
		if err != nil {
			return err
		}
		defer r.Close()
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if info.Mode().Perm() != mode {
			return fmt.Errorf("mode is %o, want %o", info.Mode().Perm(), mode)
		}
	}
	return nil
}

func TestListenMode(t *testing.T) {
	t.Parallel()
	run(t, helperCommand(t, "other-umask", "NOTIFY_SOCKET="+socketPath(t)))
}
