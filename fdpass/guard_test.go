package fdpass

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// repairs waits until a socket was repaired so many times.
func repairs(t *testing.T, s Socket, n int, log *logBuffer) {
	t.Helper()
	for end := time.Now().Add(deadline); mustStats(t, s).Repaired < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d repairs, want %d; the log says\n%s", mustStats(t, s).Repaired, n, log.String())
		}
	}
}

// A process that shuts a shared TCP socket down ends it for everybody: it listens again, at the same address, also where the kernel
// has chosen the port.
func TestGuardShutdown(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"127.0.0.1:0?mode=shared", "tcp6://[::1]:0?mode=shared", "tcp://:0?mode=shared&backlog=5"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			var log logBuffer
			s := mustOpenAll(t, OpenOptions{Log: log.logger()}, spec)[0].Socket
			child, err := s.Join(1, 0)
			must(t, err)
			defer child.Close()
			for n := 1; n <= 2; n++ {
				must(t, unix.Shutdown(child.Raw(), unix.SHUT_RDWR))
				repairs(t, s, n, &log)
				echo(t, dialText(t, s.Addr()), accept(t, child), "hello")
			}
			if !strings.Contains(log.String(), "it listens again") || !strings.Contains(log.String(), "level=ERROR") {
				t.Errorf("the log says %q", log.String())
			}
		})
	}
}

// A unix socket that was shut down takes nothing any more: another one is put at its path, like it, which the next generation gets,
// with what has come meanwhile.
func TestGuardShutdownUnix(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"unix", "unixgram", "unixpacket"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			path := filepath.Join(dir, "s")
			var log logBuffer
			s := mustOpenAll(t, OpenOptions{Log: log.logger()}, network+"://"+path+"?permissions=0640")[0].Socket
			for n := 1; n <= 3; n++ {
				child, err := s.Join(n, 0)
				must(t, err)
				defer child.Close()
				must(t, unix.Shutdown(child.Raw(), unix.SHUT_RDWR))
				repairs(t, s, n, &log)
				c, err := net.Dial(network, path)
				must(t, err)
				defer c.Close()
				_, err = c.Write([]byte("hello"))
				must(t, err)
				next, err := s.Join(n+1, 0)
				must(t, err)
				defer next.Close()
				sa, err := unix.Getsockname(next.Raw())
				if name := sa.(*unix.SockaddrUnix).Name; name != path || err != nil {
					t.Errorf("the next one has the address %q, %v", name, err)
				}
				from := next.Raw()
				if network != "unixgram" {
					from, _, err = unix.Accept4(from, unix.SOCK_CLOEXEC)
					must(t, err)
					defer unix.Close(from)
				}
				b := make([]byte, 10)
				if n, err := unix.Read(from, b); string(b[:max(0, n)]) != "hello" {
					t.Errorf("the next one has read %q, %v", b[:max(0, n)], err)
				}
			}
			if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("the file: %v, %v", info, err)
			}
			if text := log.String(); strings.Count(text, "another socket is in the place") != 3 || strings.Contains(text, "was removed") {
				t.Errorf("the log says %q", text)
			}
			must(t, os.Remove(path)) // of the newest one
			repairs(t, s, 4, &log)
			if !strings.Contains(log.String(), "it is put back") {
				t.Errorf("the log says %q", log.String())
			}
			must(t, s.Close())
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// An abstract name is taken for as long as a process has the socket: there is nothing to be done, and that is said once.
func TestGuardShutdownAbstract(t *testing.T) {
	t.Parallel()
	var log logBuffer
	s := mustOpenAll(t, OpenOptions{Log: log.logger()}, "unix://"+abstract(t))[0].Socket
	child, err := s.Join(1, 0)
	must(t, err)
	defer child.Close()
	must(t, unix.Shutdown(child.Raw(), unix.SHUT_RDWR))
	for end := time.Now().Add(deadline); !strings.Contains(log.String(), "cannot listen again"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log says %q", log.String())
		}
	}
	if n := mustStats(t, s).Repaired; n != 0 {
		t.Errorf("%d repairs", n)
	}
}

// A path that was removed with its second link, and with its directory: another socket is there once there is a directory again.
func TestGuardDirectory(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+".moved") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(shortDir(t), "d")
			path := filepath.Join(dir, "s")
			must(t, os.Mkdir(dir, 0o755))
			var log logBuffer
			s := mustOpenAll(t, OpenOptions{Log: log.logger()}, "unix://"+path)[0].Socket
			for n := 1; n <= 2; n++ {
				for remove(dir) != nil { // the guard may be faster
				}
				time.Sleep(time.Duration(n-1) * guardRest) // so that it has failed before, or not
				must(t, os.Mkdir(dir, 0o755))
				for end := time.Now().Add(deadline); !joins(t, s, n); time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("the log says %q", log.String())
					}
				}
				must(t, os.RemoveAll(dir+".moved"))
			}
		})
	}
}

// joins reports whether a client of a unix socket gets to a generation that joins just now.
func joins(t *testing.T, s Socket, generation int) bool {
	t.Helper()
	child, err := s.Join(generation, 0)
	must(t, err)
	defer child.Close()
	c, err := connectUnix(t, s.Addr())
	if err != nil {
		c.Close()
		return false
	}
	defer c.Close()
	waits, err := readable(child.Raw())
	return waits && err == nil
}

// A path that a process of the service removes, or moves away, is put back: the same socket, with owner and mode.
func TestGuardPath(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"unix", "unixgram", "unixpacket"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			path := filepath.Join(dir, "s")
			var log logBuffer
			s := mustOpenAll(t, OpenOptions{Log: log.logger()}, network+"://"+path+"?permissions=0640")[0].Socket
			before, err := os.Lstat(path)
			must(t, err)
			must(t, os.Remove(path))
			repairs(t, s, 1, &log)
			must(t, os.Rename(path, path+".moved"))
			repairs(t, s, 2, &log)
			must(t, os.Remove(path+".moved"))
			after, err := os.Lstat(path)
			must(t, err)
			if !os.SameFile(before, after) || after.Mode().Perm() != 0o640 {
				t.Errorf("there is %v, and was %v", after.Mode(), before.Mode())
			}
			c, err := net.Dial(network, path)
			must(t, err)
			c.Close()
			must(t, s.Close())
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// What somebody else puts at the path stays there; once that is gone, the socket's file is put back.
func TestGuardDisplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), "s")
	var log logBuffer
	s := mustOpenAll(t, OpenOptions{Log: log.logger()}, "unix://"+path)[0].Socket
	other := path + ".other"
	must(t, os.WriteFile(other, []byte("mine"), 0o600))
	must(t, os.Rename(other, path))
	for end := time.Now().Add(deadline); !strings.Contains(log.String(), "another file has taken the place"); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log says %q", log.String())
		}
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("the other file: %q, %v", b, err)
	}
	must(t, os.Remove(path))
	repairs(t, s, 1, &log)
	// And nobody removes it with the socket if it is not the socket's.
	must(t, os.WriteFile(other, []byte("mine"), 0o600))
	must(t, os.Rename(other, path))
	must(t, s.Close())
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Errorf("the other file, after Close: %q, %v", b, err)
	}
}

// A directory that is moved away and back brings the socket back: no other takes its place.
func TestGuardDirectoryReturns(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), "d")
	path := filepath.Join(dir, "s")
	must(t, os.Mkdir(dir, 0o755))
	var log logBuffer
	s := mustOpenAll(t, OpenOptions{Log: log.logger()}, "unix://"+path)[0].Socket
	before, err := s.Snapshot()
	must(t, err)
	must(t, os.Rename(dir, dir+".x"))
	said := func(text string) {
		t.Helper()
		for end := time.Now().Add(deadline); !strings.Contains(log.String(), text); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the log says %q", log.String())
			}
		}
	}
	said("no other socket can take its place yet")
	must(t, os.Rename(dir+".x", dir))
	said("is back, with the same socket")
	after, err := s.Snapshot()
	must(t, err)
	if after.Parts[0] != before.Parts[0] || !joins(t, s, 1) {
		t.Errorf("there is %+v, and was %+v", after.Parts, before.Parts)
	}
	must(t, os.Remove(path)) // it is guarded again
	repairs(t, s, 1, &log)
}
