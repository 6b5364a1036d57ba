package fdpass

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// rawSockaddr returns the kernel's form of an address.
func rawSockaddr(t testing.TB, sa unix.Sockaddr) []byte {
	t.Helper()
	port := func(p int) []byte { return []byte{byte(p >> 8), byte(p)} }
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return append(append([]byte{unix.AF_INET, 0}, port(sa.Port)...), append(sa.Addr[:], make([]byte, 8)...)...)
	case *unix.SockaddrInet6:
		b := append([]byte{unix.AF_INET6, 0}, port(sa.Port)...)
		b = append(append(b, 0, 0, 0, 0), sa.Addr[:]...)
		return append(b, byte(sa.ZoneId), byte(sa.ZoneId>>8), 0, 0)
	case *unix.SockaddrUnix:
		return append([]byte{unix.AF_UNIX, 0}, append([]byte(sa.Name), 0)...)
	}
	t.Fatalf("%T", sa)
	return nil
}

// asks returns what a program asks for that binds the address of a spec itself: the kernel is asked what that is. sockaddr is of
// little-endian machines.
func asks(t *testing.T, text string) Asked {
	t.Helper()
	s, err := ParseSpec(text)
	if err != nil {
		t.Fatal(err)
	}
	if s.local() {
		raw := []byte{unix.AF_UNIX, 0}
		if name, ok := strings.CutPrefix(s.Address, "@"); ok {
			raw = append(append(raw, 0), name...)
		} else {
			raw = append(append(raw, s.Address...), 0)
		}
		return asked(t, s, unix.AF_UNIX, raw)
	}
	targets, err := s.targets()
	if err != nil {
		t.Fatal(err)
	}
	sa, family, err := targets[0].sockaddr()
	if err != nil {
		t.Fatal(err)
	}
	return asked(t, s, family, rawSockaddr(t, sa))
}

func asked(t *testing.T, s Spec, family int, raw []byte) Asked {
	t.Helper()
	fd, err := s.newSocket(family)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	if family == unix.AF_INET6 {
		only := 0
		if s.v6only() {
			only = 1
		}
		if err := unix.SetsockoptInt(fd.Raw(), unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only); err != nil {
			t.Fatal(err)
		}
	}
	a, err := AskedOf(fd.Raw(), raw, func(path string) string { return path })
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return a
}

func TestMeansInternet(t *testing.T) {
	t.Parallel()
	const port = ":41999"
	for _, test := range []struct {
		have string
		same string   // what gets it
		near []string // what does not, but most likely wants it
		not  []string
	}{
		{"tcp://" + port, "tcp://[::]" + port,
			[]string{"tcp://0.0.0.0" + port, "tcp6://" + port, "tcp://127.0.0.1" + port, "tcp://[::1]" + port},
			[]string{"tcp://[::]:41998", "udp://" + port, "tcp://[::]:0"}},
		{"tcp4://" + port, "tcp://0.0.0.0" + port, []string{"tcp://[::]" + port, "tcp://127.0.0.1" + port}, []string{"tcp4://:41998", "udp4://" + port}},
		{"tcp6://" + port, "tcp6://[::]" + port, []string{"tcp://[::]" + port, "tcp4://" + port}, nil},
		{"tcp://127.0.0.1" + port, "tcp4://127.0.0.1" + port, []string{"tcp4://" + port, "tcp://" + port, "tcp://127.0.0.2" + port}, nil},
		{"tcp://[::1]" + port, "tcp6://[::1]" + port, []string{"tcp://127.0.0.1" + port, "tcp://" + port}, nil},
		{"tcp://[fe80::1%1]" + port + "?freebind=true", "tcp://[fe80::1%lo]" + port, nil, nil},
		{"udp4://127.0.0.1" + port, "udp://127.0.0.1" + port, []string{"udp4://" + port}, []string{"tcp://127.0.0.1" + port}},
		{"tcp://127.0.0.1:0", "tcp://127.0.0.1:0", nil, []string{"udp://127.0.0.1:0"}},
	} {
		spec, err := ParseSpec(test.have)
		if err != nil {
			t.Fatal(err)
		}
		// What Socket.Addr says of the socket that this spec makes.
		targets, err := spec.targets()
		if err != nil {
			t.Fatal(err)
		}
		e := endpoint{network: spec.transport(), address: targets[0].addr.String()}
		if targets[0].v6only && targets[0].addr.Addr().IsUnspecified() {
			e.network += "6"
		}
		b := Bound{Spec: spec, Socket: &shared{endpoint: e}}
		if a := asks(t, test.same); !b.Means(a) || b.Resembles(a) {
			t.Errorf("%s: %s, which is %s, does not get it", test.have, test.same, a)
		}
		for _, text := range test.near {
			if a := asks(t, text); b.Means(a) || !b.Resembles(a) {
				t.Errorf("%s: %s, which is %s: means %v, resembles %v", test.have, text, a, b.Means(a), b.Resembles(a))
			}
		}
		for _, text := range test.not {
			if a := asks(t, text); b.Means(a) || b.Resembles(a) {
				t.Errorf("%s: %s, which is %s: means %v, resembles %v", test.have, text, a, b.Means(a), b.Resembles(a))
			}
		}
	}
}

// TestMeansMapped asks for an IPv4 address in the form of IPv6, as Java does. A socket for
// IPv6 alone cannot be bound to it.
func TestMeansMapped(t *testing.T) {
	t.Parallel()
	b := Bound{Socket: &shared{endpoint: endpoint{network: TCP, address: "127.0.0.1:41999"}}}
	mapped := rawSockaddr(t, &unix.SockaddrInet6{Port: 41999, Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}})
	for _, only := range []bool{false, true} {
		a, err := decodeAsked(unix.AF_INET6, TCP, only, mapped, nil)
		if err != nil || b.Means(a) == only || b.Resembles(a) != only {
			t.Errorf("IPv6 alone %v: %v, %v, means %v, resembles %v", only, a, err, b.Means(a), b.Resembles(a))
		}
	}
	anyPort := Bound{Spec: Spec{Network: TCP, Address: "127.0.0.1:0"}, Socket: b.Socket}
	probe := rawSockaddr(t, &unix.SockaddrInet6{Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}})
	if a, err := decodeAsked(unix.AF_INET6, TCP, false, probe, nil); err != nil || anyPort.Means(a) {
		t.Errorf("the probe of Go's net: %v, %v, gets the socket", a, err)
	}
}

// The port that the kernel has chosen is the socket's too.
func TestMeansChosenPort(t *testing.T) {
	t.Parallel()
	b := mustOpenAll(t, OpenOptions{}, "tcp://127.0.0.1:0")[0]
	for _, text := range []string{b.Socket.Addr(), "tcp://127.0.0.1:0"} {
		if !b.Means(asks(t, text)) {
			t.Errorf("%s does not get %s", text, b.Socket.Addr())
		}
	}
}

func TestMeansUnix(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	real := filepath.Join(dir, "real")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	b := Bound{Socket: &shared{endpoint: endpoint{network: Unix, address: real + "/s"}}}
	for _, path := range []string{real + "/s", dir + "/link/s", real + "/../link/./s", dir + "//real//s"} {
		if a := asks(t, "unix://"+path); !b.Means(a) {
			t.Errorf("%s does not get %s", path, b.Socket.Addr())
		}
	}
	// Nor what is relative to another directory, by way of the one that asks.
	for _, path := range []string{"s", "../real/s", "real/s"} {
		raw := append([]byte{unix.AF_UNIX, 0}, path...)
		at := func(base string) Asked {
			a, err := decodeAsked(unix.AF_UNIX, Unix, false, raw, func(p string) string { return base + "/" + p })
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		good := real
		if path == "real/s" {
			good = dir
		}
		if !b.Means(at(good)) || b.Means(at(os.TempDir())) {
			t.Errorf("%s in %s does not get it, or it does in %s", path, good, os.TempDir())
		}
	}
	for text, near := range map[string]bool{
		"unix://" + dir + "/s": false, "unix://" + real + "/t": false, "unix://" + real + "/none/s": false, "unix://@" + real[1:] + "/s": false,
		"unixgram://" + real + "/s": true, "unixpacket://" + real + "/s": true,
	} {
		if a := asks(t, text); b.Means(a) || b.Resembles(a) != near {
			t.Errorf("%s: means %v, resembles %v", text, b.Means(a), b.Resembles(a))
		}
	}
	named := Bound{Socket: &shared{endpoint: endpoint{network: UnixGram, address: "@zdd/x"}}}
	if !named.Means(asks(t, "unixgram://@zdd/x")) || named.Means(asks(t, "unixgram://@zdd/y")) || named.Means(asks(t, "unix://@zdd/x")) {
		t.Error("an abstract name")
	}
}

func TestAskedErrors(t *testing.T) {
	t.Parallel()
	same := func(p string) string { return p }
	for name, test := range map[string]struct {
		family int
		raw    []byte
	}{
		"nothing":            {unix.AF_INET, nil},
		"another family":     {unix.AF_INET6, rawSockaddr(t, &unix.SockaddrInet4{})},
		"short IPv4":         {unix.AF_INET, rawSockaddr(t, &unix.SockaddrInet4{})[:7]},
		"short IPv6":         {unix.AF_INET6, rawSockaddr(t, &unix.SockaddrInet6{})[:23]},
		"a name to be found": {unix.AF_UNIX, []byte{unix.AF_UNIX, 0}},
		"long":               {unix.AF_UNIX, append([]byte{unix.AF_UNIX, 0}, make([]byte, MaxSockaddr)...)},
	} {
		if a, err := decodeAsked(test.family, TCP, false, test.raw, same); err == nil {
			t.Errorf("%s became %s", name, a)
		}
	}
}

func FuzzDecodeAsked(f *testing.F) {
	f.Add(unix.AF_INET, false, rawSockaddr(f, &unix.SockaddrInet4{Port: 80, Addr: [4]byte{127, 0, 0, 1}}))
	f.Add(unix.AF_INET6, true, rawSockaddr(f, &unix.SockaddrInet6{Port: 80}))
	f.Add(unix.AF_INET6, false, rawSockaddr(f, &unix.SockaddrInet6{Port: 80, Addr: [16]byte{0xfe, 0x80, 15: 1}, ZoneId: 3}))
	f.Add(unix.AF_UNIX, false, rawSockaddr(f, &unix.SockaddrUnix{Name: "/run/a"}))
	f.Add(unix.AF_UNIX, false, []byte{unix.AF_UNIX, 0, 0, 'a', 0})
	f.Fuzz(func(t *testing.T, family int, v6only bool, raw []byte) {
		network := TCP
		if family == unix.AF_UNIX {
			network = Unix
		}
		a, err := decodeAsked(family, network, v6only, raw, func(p string) string { return "/" + p })
		if (err != nil) != (a == Asked{}) {
			t.Fatalf("%v, %v", a, err)
		}
		b := Bound{Spec: Spec{Network: TCP, Address: ":0"}, Socket: &shared{endpoint: endpoint{network: TCP, address: "127.0.0.1:80"}}}
		if err == nil && b.Means(a) && b.Resembles(a) {
			t.Fatalf("%s is the same and is not", a)
		}
	})
}

// The path is back at once, and not only when the guard has seen that it is gone.
func TestPutBack(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/s"
	s := mustOpen(t, "unix://"+path)
	for range 100 {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := s.PutBack(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"tcp://127.0.0.1:0", "tcp://127.0.0.1:0?mode=shared"} {
		if err := mustOpen(t, other).PutBack(); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// A socket that is inherited may be adopted by the next generation, and the other way round.
func TestPassChanges(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"tcp://127.0.0.1:0", "tcp://127.0.0.1:0?mode=shared", "unix://" + t.TempDir() + "/s"} {
		had := mustOpenAll(t, OpenOptions{}, text)
		for _, pass := range []Pass{PassAdopt, PassFD, ""} {
			spec := had[0].Spec
			spec.Pass = pass
			now, fresh, err := Open([]Spec{spec}, OpenOptions{Have: had})
			if err != nil || len(fresh) > 0 || now[0].Socket != had[0].Socket || now[0].Spec.Pass != pass {
				t.Fatalf("%s to %q: %+v, %v, %v", text, pass, now, fresh, err)
			}
			if err := now[0].Socket.Reconfigure(spec); err != nil {
				t.Errorf("%s to %q: %v", text, pass, err)
			}
			had = now
		}
	}
}

// TestSamePathOfAnother has a relative path with .. in it found by the working directory
// of a process, as proc(5) has it: a link behind which .. is no way back.
func TestSamePathOfAnother(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	must(t, os.MkdirAll(filepath.Join(dir, "run"), 0o755), os.MkdirAll(filepath.Join(dir, "srv/app"), 0o755),
		os.Symlink(filepath.Join(dir, "srv/app"), filepath.Join(dir, "cwd")))
	own := filepath.Join(dir, "run/s")
	for asked, want := range map[string]bool{
		dir + "/cwd/../../run/s": true, dir + "/run/../run/s": true, dir + "/cwd/../run/s": false, dir + "/cwd/s": false,
	} {
		if got := samePath(own, asked); got != want {
			t.Errorf("%s: %v, want %v", asked, got, want)
		}
	}
}
