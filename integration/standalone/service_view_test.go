package standalone

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What the service sees: its sockets in order and by name, its own pid, a clean environment, no other descriptors, no
// signals that somebody else ignored or blocked.
func TestServiceView(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	sockets := fmt.Sprintf(`
[[socket]]
name = "web"
listen = "tcp://127.0.0.1:0"
[[socket]]
name = "four"
listen = "tcp4://127.0.0.1:0"
[[socket]]
name = "six"
listen = "tcp6://[::1]:0"
[[socket]]
name = "path"
listen = "unix://%[1]s/stream.sock"
[[socket]]
name = "packets"
listen = "unixpacket://%[1]s/packet.sock"
[[socket]]
name = "grams"
listen = "unixgram://%[1]s/gram.sock"
[[socket]]
name = "datagrams"
listen = "udp://127.0.0.1:0"
[[socket]]
name = "abstract"
listen = "@%[1]s/abstract"
`, dir)
	s := start(t, configuration{mode: "v1", sockets: sockets})
	r := s.ask("tcp", s.address())
	names := []string{"web", "four", "six", "path", "packets", "grams", "datagrams", "abstract"}
	if !slices.Equal(r.Names, names) {
		t.Errorf("the names are %q", r.Names)
	}
	for i, kind := range []string{"tcp 127.0.0.1:", "tcp 127.0.0.1:", "tcp [::1]:", "unix " + dir + "/stream.sock",
		"unixpacket " + dir + "/packet.sock", "unixgram " + dir + "/gram.sock", "udp 127.0.0.1:", "unix @" + dir + "/abstract"} {
		if i >= len(r.Kinds) || !strings.HasPrefix(r.Kinds[i], kind) {
			t.Errorf("socket %s: want %q in %q", names[i], kind, r.Kinds)
		}
	}
	if r.ListenPID != fmt.Sprint(r.PID) {
		t.Errorf("LISTEN_PID is %s, the pid is %d", r.ListenPID, r.PID)
	}
	if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(r.Open, want) {
		t.Errorf("descriptors %v, want %v", r.Open, want)
	}
	if r.Blocked != strings.Repeat("0", 16) || r.Ignored != strings.Repeat("0", 16) {
		t.Errorf("blocked signals %s, ignored %s", r.Blocked, r.Ignored)
	}
	for _, variable := range r.Env {
		name, _, _ := strings.Cut(variable, "=")
		if slices.Contains([]string{"LISTEN_PIDFDID", "WATCHDOG_PID", "WATCHDOG_USEC", "MAINPID", "FDSTORE"}, name) || strings.HasPrefix(name, "ZDD_SHIM") {
			t.Errorf("the environment has %s", variable)
		}
	}
	for _, path := range []string{"stream.sock", "packet.sock"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
			t.Error(err)
		}
	}
	if got := s.ask("unix", filepath.Join(dir, "stream.sock")); got.PID != r.PID {
		t.Errorf("pid %d answers on the path, %d on TCP", got.PID, r.PID)
	}
	s.signal(unix.SIGTERM)
	s.wait()
	for _, path := range []string{"stream.sock", "packet.sock", "gram.sock"} {
		if _, err := os.Stat(filepath.Join(dir, path)); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

// Sockets that come, go, change their name and their place: each keeps its identity by its address.
func TestSocketsChange(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	one := fmt.Sprintf("[[socket]]\nname = \"one\"\nlisten = \"unix://%s/one\"\n", dir)
	two := fmt.Sprintf("[[socket]]\nname = \"two\"\nlisten = \"unix://%s/two\"\n", dir)
	s := start(t, configuration{mode: "v1", sockets: one + two})
	inode := func(name string) uint64 {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(dir, name), &st); err != nil {
			return 0
		}
		return st.Ino
	}
	before := inode("two")
	three := fmt.Sprintf("[[socket]]\nname = \"three\"\nlisten = \"unix://%s/three\"\n", dir)
	renamed := strings.ReplaceAll(two, `"two"`, `"deux"`)
	configuration{mode: "v2", sockets: three + renamed}.write(t, s.dir)
	if status, _, stderr := s.reload(); status != 0 {
		t.Fatalf("reload: %s", stderr)
	}
	s.settled()
	if r := s.ask("unix", filepath.Join(dir, "two")); !slices.Equal(r.Names, []string{"three", "deux"}) {
		t.Errorf("the service has %q", r.Names)
	}
	if after := inode("two"); after != before {
		t.Error("the renamed socket was bound anew")
	}
	if inode("one") != 0 {
		t.Error("the path of the socket that has gone is still there")
	}
	if r := s.ask("unix", filepath.Join(dir, "three")); r.Version != "v2" {
		t.Errorf("%s answers on the new socket", r.Version)
	}

	// One that cannot be bound: nothing changes, and what was new with it is not left behind.
	configuration{mode: "v3", sockets: three + renamed +
		fmt.Sprintf("[[socket]]\nname = \"four\"\nlisten = \"unix://%s/four\"\n", dir) +
		fmt.Sprintf("[[socket]]\nname = \"bad\"\nlisten = \"unix://%s/missing/directory\"\n", dir)}.write(t, s.dir)
	status, _, stderr := s.reload()
	if status != 1 || !strings.Contains(stderr, "missing") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	if inode("four") != 0 {
		t.Error("a socket of the failed handoff is left")
	}
	if r := s.ask("unix", filepath.Join(dir, "three")); r.Version != "v2" {
		t.Errorf("%s answers", r.Version)
	}
}

// A release is a directory that `current` points to. Nothing of the old one is kept: not its path, not its directory.
func TestReleases(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	current := filepath.Join(dir, "current")
	release := func(name string) {
		path := filepath.Join(dir, "releases", name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("#!/bin/sh\n%s=%s exec %s\n", serviceEnv, name, self)
		if err := os.WriteFile(filepath.Join(path, "svc"), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, current+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(current+".new", current); err != nil {
			t.Fatal(err)
		}
	}
	release("1")
	c := configuration{
		command: []string{filepath.Join(current, "svc")},
		more:    fmt.Sprintf("directory = %q\n", current),
		sockets: fmt.Sprintf("[[socket]]\nlisten = \"tcp://127.0.0.1:0\"\n[releases]\ndirectory = %q\ncurrent = %q\n", filepath.Join(dir, "releases"), current),
	}
	s := start(t, c)
	release("2")
	if err := os.RemoveAll(filepath.Join(dir, "releases", "1")); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := s.reload(); status != 0 {
		t.Fatalf("reload: %s", stderr)
	}
	if g := s.settled(); g.Release != "2" {
		t.Errorf("release %q is live", g.Release)
	}
	if r := s.ask("tcp", s.address()); r.Version != "2" || !strings.HasSuffix(r.Directory, "/releases/2") {
		t.Errorf("%s answers, from %s", r.Version, r.Directory)
	}
	// The binary is gone: the path is named, and the old one serves on.
	if err := os.Remove(filepath.Join(dir, "releases", "2", "svc")); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := s.reload(); status != 1 || !strings.Contains(stderr, "svc") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	s.ask("tcp", s.address())
}
