package fdpass

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// unixClient returns a socket connected to the unix address of a spec.
func unixClient(t *testing.T, addr string) *FD {
	t.Helper()
	fd, err := connectUnix(t, addr)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// connectUnix is unixClient with the bare error.
func connectUnix(t *testing.T, addr string) (*FD, error) {
	t.Helper()
	s := mustParse(t, addr)
	fd, err := s.newSocket(unix.AF_UNIX)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fd.Close() })
	return fd, unix.Connect(fd.Raw(), &unix.SockaddrUnix{Name: s.Address})
}

// leaveStale binds a path as a process does that dies without cleaning up.
func leaveStale(t *testing.T, spec string) {
	t.Helper()
	s := mustParse(t, spec)
	fd, err := s.newSocket(unix.AF_UNIX)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	if err := unix.Bind(fd.Raw(), &unix.SockaddrUnix{Name: s.Address}); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestOpenUnix(t *testing.T) {
	t.Parallel()
	for network, kind := range map[string]int{Unix: unix.SOCK_STREAM, UnixGram: unix.SOCK_DGRAM, UnixPacket: unix.SOCK_SEQPACKET} {
		for _, address := range []string{sockPath(t), abstract(t), filepath.Join(shortDir(t), "a b%?&=ä.sock")} {
			spec := Spec{Network: network, Address: address}
			t.Run(spec.String(), func(t *testing.T) {
				t.Parallel()
				s := mustOpen(t, spec.String())
				if s.Addr() != spec.String() {
					t.Errorf("Addr = %s, want %s", s.Addr(), spec)
				}
				fd := join(t, s)
				if got := sockoptInt(t, fd, unix.SOL_SOCKET, unix.SO_TYPE); got != kind {
					t.Errorf("type %d, want %d", got, kind)
				}
				sa, err := unix.Getsockname(fd.Raw())
				if err != nil || sa.(*unix.SockaddrUnix).Name != address {
					t.Errorf("the service sees %+v, %v; want %s", sa, err, address)
				}
				client := unixClient(t, s.Addr())
				if err := unix.Sendto(client.Raw(), []byte("hello"), 0, nil); err != nil {
					t.Fatal(err)
				}
				server := fd
				if kind != unix.SOCK_DGRAM {
					raw, _, err := unix.Accept4(fd.Raw(), unix.SOCK_CLOEXEC)
					if err != nil {
						t.Fatal(err)
					}
					server = NewFD(raw)
					defer server.Close()
				}
				if got := receive(t, server); got != "hello" {
					t.Errorf("got %q", got)
				}
				path := spec.unixPath()
				if path != exists(address) {
					t.Errorf("there is a file: %v", exists(address))
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				if exists(address) {
					t.Error("Close leaves the file")
				}
			})
		}
	}
}

func TestUnixOwnership(t *testing.T) {
	t.Parallel()
	umask, err := currentUmask()
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Geteuid(), os.Getegid()
	tests := []struct {
		options  string
		mode     uint32
		uid, gid int
		root     bool
	}{
		{"", 0o777 &^ umask, uid, gid, false},
		{"?permissions=0666", 0o666, uid, gid, false},
		{"?permissions=0600", 0o600, uid, gid, false},
		{fmt.Sprintf("?owner=%d&group=%d&permissions=0660", uid, gid), 0o660, uid, gid, false},
		{"?owner=65534&group=65533", 0o777 &^ umask, 65534, 65533, true},
		{"?owner=root&group=65534&permissions=0660", 0o660, 0, 65534, true},
	}
	for _, test := range tests {
		if test.root && uid != 0 {
			continue
		}
		for _, network := range []string{Unix, UnixGram, UnixPacket} {
			path := sockPath(t)
			s := mustOpen(t, network+"://"+path+test.options)
			checkFile(t, path, test.mode, test.uid, test.gid)
			s.Close()
		}
	}
}

func checkFile(t *testing.T, path string, mode uint32, uid, gid int) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	if st.Mode != unix.S_IFSOCK|mode || int(st.Uid) != uid || int(st.Gid) != gid {
		t.Errorf("the file has mode %o and owner %d:%d, want %o and %d:%d", st.Mode, st.Uid, st.Gid, unix.S_IFSOCK|mode, uid, gid)
	}
}

// TestBoundForUsAlone looks at the file between bind and the time when its
// permissions are set.
func TestBoundForUsAlone(t *testing.T) {
	t.Parallel()
	s := mustParse(t, "unixgram://"+sockPath(t)+"?permissions=0666")
	fd, err := s.newSocket(unix.AF_UNIX)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	file, err := s.bindPath(fd.Raw(), (&logBuffer{}).logger())
	if err != nil {
		t.Fatal(err)
	}
	checkFile(t, s.Address, 0o600, os.Geteuid(), os.Getegid())
	if err := file.remove(); err != nil || exists(s.Address) {
		t.Errorf("remove: %v", err)
	}
}

func TestStaleUnixPath(t *testing.T) {
	t.Parallel()
	networks := []string{Unix, UnixGram, UnixPacket}
	for _, left := range networks {
		for _, network := range networks {
			path := sockPath(t)
			leaveStale(t, left+"://"+path)
			if !exists(path) {
				t.Fatal("nothing is left to test with")
			}
			var log logBuffer
			all := mustOpenAll(t, OpenOptions{Log: log.logger()}, "a="+network+"://"+path)
			unixClient(t, all[0].Socket.Addr())
			if want := "removed a socket file that a dead process left\" socket=a path=" + path; strings.Count(log.String(), want) != 1 {
				t.Errorf("the log says %q", log.String())
			}
			all[0].Socket.Close()
		}
	}
}

// TestLiveUnixPath has the path in the hands of somebody alive, in each state
// that a socket can be in.
func TestLiveUnixPath(t *testing.T) {
	t.Parallel()
	for _, network := range []string{Unix, UnixGram, UnixPacket} {
		for _, state := range []string{"bound", "listening", "full"} {
			if network == UnixGram && state != "bound" {
				continue
			}
			path := sockPath(t)
			owner, err := Spec{Network: network}.newSocket(unix.AF_UNIX)
			if err != nil {
				t.Fatal(err)
			}
			defer owner.Close()
			if err := unix.Bind(owner.Raw(), &unix.SockaddrUnix{Name: path}); err != nil {
				t.Fatal(err)
			}
			if state != "bound" {
				if err := unix.Listen(owner.Raw(), 0); err != nil {
					t.Fatal(err)
				}
			}
			if state == "full" {
				unixClient(t, network+"://"+path)
			}
			before, _, _ := identify(path)
			oe := openErr(t, OpenOptions{}, "a=unix://"+path)
			want := "socket a: unix://" + path + " is in use by another process (address already in use); stop it or choose another path"
			if oe.Error() != want || !errors.Is(oe, unix.EADDRINUSE) {
				t.Errorf("%s, %s:\ngot  %v\nwant %s", network, state, oe, want)
			}
			if after, _, err := identify(path); err != nil || after != before {
				t.Errorf("%s, %s: the file was touched", network, state)
			}
		}
	}
}

// TestProbePath covers what connect tells where unix_diag does not: sockets of
// other network namespaces.
func TestProbePath(t *testing.T) {
	t.Parallel()
	live, dead := sockPath(t), sockPath(t)
	mustOpen(t, "unix://"+live)
	leaveStale(t, "unix://"+dead)
	for _, network := range []string{Unix, UnixGram, UnixPacket} {
		if err := (Spec{Network: network, Address: live}).probePath(); !errors.Is(err, errLive) {
			t.Errorf("%s: a live path: %v", network, err)
		}
		if err := (Spec{Network: network, Address: dead}).probePath(); err != nil {
			t.Errorf("%s: a dead path: %v", network, err)
		}
	}
}

func TestUnixErrors(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	name := abstract(t)
	mustOpen(t, name)
	tests := []struct {
		spec, want string
		err        error
	}{
		{"unix://" + file, file + " exists and is not a socket; remove it or choose another path", errNotSocket},
		{"unixgram://" + link, link + " exists and is not a socket; remove it or choose another path", errNotSocket},
		{"unix://" + dir, dir + " exists and is not a socket; remove it or choose another path", errNotSocket},
		{"unix://" + dir + "/no/s", "the directory " + dir + "/no does not exist (no such file or directory); create it, for example with RuntimeDirectory= in the unit", unix.ENOENT},
		{"unix://" + file + "/s", file + " is not a directory (not a directory)", unix.ENOTDIR},
		{"unix:///proc/self/s", "the directory /proc/self does not exist (no such file or directory); create it, for example with RuntimeDirectory= in the unit", unix.ENOENT},
		{"unix://" + dir + "/s?owner=no-such-user", `there is no user "no-such-user" to own ` + dir + "/s", nil},
		{"unix://" + dir + "/s?group=no-such-group", `there is no group "no-such-group" for ` + dir + "/s", nil},
		{"unix://" + dir + "/s?owner=4294967295", `option "owner": "4294967295" is refused (value out of range)`, nil},
		{name, name + " is in use by another process (address already in use); stop it or choose another address", unix.EADDRINUSE},
	}
	for _, test := range tests {
		oe := openErr(t, OpenOptions{}, "a="+strings.Replace(test.spec, "@", "unix:@", 1))
		if oe.Reason != test.want || test.err != nil && !errors.Is(oe, test.err) {
			t.Errorf("%s:\ngot  %v\nwant %s", test.spec, oe.Reason, test.want)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("the file that is not a socket was touched: %q, %v", text, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("files are left or lost: %v, %v", entries, err)
	}
}

// TestUnixPermissions tells an unprivileged user what it may not do.
func TestUnixPermissions(t *testing.T) {
	closed, open := shortDir(t), shortDir(t)
	if err := os.Chmod(closed, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		if err := os.Chmod(closed, 0o555); err != nil {
			t.Fatal(err)
		}
	}
	stale := filepath.Join(open, "stale")
	leaveStale(t, "unix://"+stale)
	secret := filepath.Join(open, "secret")
	leaveStale(t, "unix://"+secret)
	for path, mode := range map[string]os.FileMode{stale: 0o777, secret: 0} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		spec, want string
		root       bool // the test shows something only if root set it up
	}{
		{"unix://" + closed + "/s", "the supervisor may not create files in " + closed + " (permission denied); change its owner, or choose another directory", false},
		{"unix://" + open + "/s?owner=0", open + `/s cannot be given to owner "0" and group "" (operation not permitted); run as root, or choose a group that the supervisor is in`, false},
		{"unix://" + stale, stale + " was left by a dead process and cannot be removed (operation not permitted); remove it or let the supervisor write to " + open, true},
		{"unix://" + secret, secret + " exists, and we may not connect to it to see whether a process uses it (permission denied); remove it if none does", false},
	}
	for _, test := range tests {
		if test.root && os.Geteuid() != 0 {
			continue
		}
		if got := runHelper(t, true, "open", "a="+test.spec); got != "socket a: "+test.want {
			t.Errorf("%s:\ngot  %s\nwant socket a: %s", test.spec, got, test.want)
		}
	}
	if exists(filepath.Join(open, "s")) {
		t.Error("the socket that failed leaves its file")
	}
	if !exists(stale) || !exists(secret) {
		t.Error("a file was removed")
	}
}

// TestForeignInode puts another file in the place of the socket's.
func TestForeignInode(t *testing.T) {
	t.Parallel()
	for _, foreign := range []string{"socket", "file", "none"} {
		path := sockPath(t)
		s := mustOpen(t, "unix://"+path)
		other := path + "2"
		switch foreign {
		case "socket":
			leaveStale(t, "unix://"+other)
		case "file":
			must(t, os.WriteFile(other, nil, 0o600))
		}
		if foreign == "none" { // and nothing to put it back from
			must(t, os.Remove((&socketFile{path: path}).spare()))
			must(t, os.Remove(path))
		} else {
			must(t, os.Rename(other, path))
		}
		before, _, _ := identify(path)
		if err := s.Reconfigure(mustParse(t, "unix://"+path+"?permissions=0600")); foreign != "none" && !errors.Is(err, errReplaced) {
			t.Errorf("%s: Reconfigure: %v", foreign, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: Close: %v", foreign, err)
		}
		// Where there was none, the guard may have put another socket there meanwhile,
		// which is the socket's own then.
		after, _, err := identify(path)
		switch {
		case foreign == "none" && err != unix.ENOENT:
			t.Errorf("none: after Close, identify: %v, want %v", err, unix.ENOENT)
		case foreign != "none" && (err != nil || after != before):
			t.Errorf("%s: Close removed a file that is not the socket's", foreign)
		}
	}
}

// TestReplaceRace lets many supervisors start at once on one stale path: one
// gets it, the others are told that it is in use, and it keeps it.
func TestReplaceRace(t *testing.T) {
	t.Parallel()
	path := sockPath(t)
	leaveStale(t, "unix://"+path)
	spec := mustParse(t, "unix://"+path)
	type result struct {
		all []Bound
		err error
	}
	const contenders = 16
	results := make(chan result)
	for range contenders {
		go func() {
			all, _, err := Open([]Spec{spec}, OpenOptions{})
			results <- result{all, err}
		}()
	}
	var won []Bound
	for range contenders {
		r := <-results
		if r.err != nil && !errors.Is(r.err, unix.EADDRINUSE) {
			t.Error(r.err)
		}
		won = append(won, r.all...)
	}
	if len(won) != 1 {
		t.Errorf("%d have the path at once", len(won))
	}
	for _, b := range won {
		unixClient(t, b.Socket.Addr())
		b.Socket.Close()
	}
}

// TestReplaceWaits shows what TestReplaceRace depends on: while another
// supervisor clears a path in the directory, nobody else does.
func TestReplaceWaits(t *testing.T) {
	t.Parallel()
	path := sockPath(t)
	leaveStale(t, "unix://"+path)
	unlock := lockDirectory(filepath.Dir(path))
	defer func() { unlock() }()
	cleared := make(chan error, 1)
	go func() { cleared <- mustParse(t, "unix://"+path).clearPath((&logBuffer{}).logger()) }()
	select {
	case err := <-cleared:
		t.Fatalf("the path was cleared in spite of the lock: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if !exists(path) {
		t.Error("the file is gone in spite of the lock")
	}
	unlock()
	unlock = func() {}
	if err := <-cleared; err != nil || exists(path) {
		t.Errorf("after the lock: %v, file left: %v", err, exists(path))
	}
}
