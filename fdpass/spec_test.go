package fdpass

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseSpec(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text      string
		want      Spec
		canonical string // where it is not text
	}{
		{"tcp://127.0.0.1:80", Spec{Network: TCP, Address: "127.0.0.1:80"}, ""},
		{"tcp://:8080", Spec{Network: TCP, Address: ":8080"}, ""},
		{"tcp4://:0", Spec{Network: TCP4, Address: ":0"}, ""},
		{"tcp6://[::1]:80", Spec{Network: TCP6, Address: "[::1]:80"}, ""},
		{"tcp://[fe80::1%eth0]:80", Spec{Network: TCP, Address: "[fe80::1%eth0]:80"}, ""},
		{"tcp://www.example.com:80", Spec{Network: TCP, Address: "www.example.com:80"}, ""},
		{"localhost:80", Spec{Network: TCP, Address: "localhost:80"}, "tcp://localhost:80"},
		{":80", Spec{Network: TCP, Address: ":80"}, "tcp://:80"},
		{"[::]:80", Spec{Network: TCP, Address: "[::]:80"}, "tcp://[::]:80"},
		{"udp://:53", Spec{Network: UDP, Address: ":53"}, ""},
		{"udp4://0.0.0.0:53", Spec{Network: UDP4, Address: "0.0.0.0:53"}, ""},
		{"udp6://:53", Spec{Network: UDP6, Address: ":53"}, ""},
		{"unix:///run/a.sock", Spec{Network: Unix, Address: "/run/a.sock"}, ""},
		{"unix:/run/a.sock", Spec{Network: Unix, Address: "/run/a.sock"}, "unix:///run/a.sock"},
		{"unixgram:///run/a.sock", Spec{Network: UnixGram, Address: "/run/a.sock"}, ""},
		{"unixpacket:///run/a.sock", Spec{Network: UnixPacket, Address: "/run/a.sock"}, ""},
		{"unix:///run/50%25%3fa=b&c.sock", Spec{Network: Unix, Address: "/run/50%?a=b&c.sock"}, "unix:///run/50%25%3Fa=b%26c.sock"},
		{"@app", Spec{Network: Unix, Address: "@app"}, ""},
		{"@a=b", Spec{Network: Unix, Address: "@a=b"}, ""},
		{"unix:@app", Spec{Network: Unix, Address: "@app"}, "@app"},
		{"unix://@app", Spec{Network: Unix, Address: "@app"}, "@app"},
		{"unixgram:@app", Spec{Network: UnixGram, Address: "@app"}, ""},
		{"unixpacket://@app", Spec{Network: UnixPacket, Address: "@app"}, "unixpacket:@app"},
		{"systemd:web", Spec{Network: Systemd, Address: "web"}, ""},
		{"systemd:a=b?name=web", Spec{Name: "web", Network: Systemd, Address: "a=b"}, "web=systemd:a=b"},
		{"http=tcp://:8080", Spec{Name: "http", Network: TCP, Address: ":8080"}, ""},
		{"http=:8080", Spec{Name: "http", Network: TCP, Address: ":8080"}, "http=tcp://:8080"},
		{"http=tcp://:8080?mode=shared&backlog=1024", Spec{Name: "http", Network: TCP, Address: ":8080", Mode: Shared, Backlog: 1024}, ""},
		{":80?name=a/b%3d", Spec{Name: "a/b=", Network: TCP, Address: ":80"}, "tcp://:80?name=a/b="},
		{"unix:///a?owner=www&group=33&permissions=660", Spec{Network: Unix, Address: "/a", Owner: "www", Group: "33", Permissions: 0o660}, "unix:///a?owner=www&group=33&permissions=0660"},
		{":80?v6only&freebind=yes&reuseport=on&transparent=1&nonblocking=false", Spec{Network: TCP, Address: ":80", V6Only: true, FreeBind: true, ReusePort: true, Transparent: true}, "tcp://:80?v6only=true&freebind=true&reuseport=true&transparent=true"},
		{":80?rcvbuf=1&sndbuf=2&mark=0x10&device=eth0&defer-accept=30s&fastopen=5&nonblocking", Spec{Network: TCP, Address: ":80", ReceiveBuffer: 1, SendBuffer: 2, Mark: 16, Device: "eth0", DeferAccept: 30 * time.Second, FastOpen: 5, NonBlocking: true}, "tcp://:80?rcvbuf=1&sndbuf=2&mark=16&device=eth0&defer-accept=30s&fastopen=5&nonblocking=true"},
	}
	for _, test := range tests {
		got, err := ParseSpec(test.text)
		if err != nil {
			t.Errorf("ParseSpec(%q): %v", test.text, err)
			continue
		}
		if got != test.want {
			t.Errorf("ParseSpec(%q) = %+v, want %+v", test.text, got, test.want)
		}
		want := test.canonical
		if want == "" {
			want = test.text
		}
		if got.String() != want {
			t.Errorf("ParseSpec(%q).String() = %q, want %q", test.text, got.String(), want)
		}
		if again, err := ParseSpec(got.String()); err != nil || again != got {
			t.Errorf("ParseSpec(%q) = %+v, %v; want what it was made of, %+v", got.String(), again, err, got)
		}
	}
}

// TestParseSpecErrors checks the whole sentence, since a person has to act on
// it.
func TestParseSpecErrors(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, option, reason string }{
		{"", "", `there is no address; write for example tcp://:8080 or unix:///run/app.sock`},
		{"tcp://:80?bcklog=5", "bcklog", `unknown option "bcklog" (did you mean "backlog"?)`},
		{"tcp://:80?perm=660", "perm", `unknown option "perm" (did you mean "permissions"?)`},
		{"tcp://:80?zzzzzz=5", "zzzzzz", `unknown option "zzzzzz"; there are name, mode, pass, ports, protocol, overlap, backlog, owner, group, permissions, v6only, freebind, reuseport, transparent, rcvbuf, sndbuf, mark, device, defer-accept, fastopen, nonblocking`},
		{"tcp://:80?pass=file", "pass", `option "pass": "file" is not a way to pass a socket; it is one of fd, port, reuseport, adopt`},
		{"tcp://:80?pass=port", "ports", `option "pass": the private ports are not given; write for example ports = "18081-18082", two ports that nothing else uses`},
		{"tcp://:80?pass=port&ports=81", "ports", `option "ports": it is 1 ports, and has to be two at least, for the old generation and the new one, and 64 at most`},
		{"tcp://:80?pass=port&ports=82-81", "ports", `option "ports": "82-81" is neither a port nor a range of ports such as 18081-18082`},
		{"tcp://:80?pass=port&ports=81,81", "ports", `option "ports": port 81 is in it twice`},
		{"tcp://:80?pass=port&ports=1-1000", "ports", `option "ports": "1-1000" is more than 64 ports`},
		{"tcp://:80?pass=port&ports=80-81", "ports", `option "ports": 80 is the port that clients connect to`},
		{"tcp://:0?pass=port&ports=80-81", "", `the port that clients connect to has to be given with pass=port, and cannot be 0`},
		{"tcp://:80?pass=port&ports=81-82&rcvbuf=1", "rcvbuf", `option "rcvbuf" cannot be given with pass=port: the service opens its sockets itself`},
		{"tcp://:80?pass=port&ports=81-82&mode=shared", "mode", `option "mode": a socket with pass=port is never shared; leave it out`},
		{"udp://:80?pass=port&ports=81-82", "pass", `option "pass": "port" is only for tcp sockets`},
		{"tcp://:80?ports=81-82", "ports", `option "ports" is only for sockets with pass = "port"`},
		{"tcp://:80?backlog=5&backlog=6", "backlog", `option "backlog" is given twice`},
		{"a=tcp://:80?name=b", "name", `option "name" is given twice`},
		{"tcp://:80?", "", `there is an empty option after '?' or '&'`},
		{"tcp://:80?backlog=-1", "backlog", `option "backlog": "-1" is not a number from 0 to 2147483647`},
		{"tcp://:80?backlog=+1", "backlog", `option "backlog": "+1" is not a number from 0 to 2147483647`},
		{"tcp://:80?backlog", "backlog", `option "backlog": "" is not a number from 0 to 2147483647`},
		{"tcp://:80?mark=-1", "mark", `option "mark": "-1" is not a number from 0 to 4294967295`},
		{"tcp://:80?freebind=maybe", "freebind", `option "freebind": "maybe" is neither true nor false`},
		{"tcp://:80?defer-accept=1500ms", "defer-accept", `option "defer-accept": 1.5s is not a number of whole seconds`},
		{"tcp://:80?defer-accept=5", "defer-accept", `option "defer-accept": "5" is not a time such as 30s`},
		{"tcp://:80?device=a/b", "device", `option "device": "a/b" is not the name of a network interface`},
		{"tcp://:80?device=", "device", `option "device": needs a value`},
		{"unix:///a?permissions=888", "permissions", `option "permissions": "888" is not an octal number from 0001 to 0777`},
		{"unix:///a?permissions=1777", "permissions", `option "permissions": 1777 is not an octal number from 0001 to 0777`},
		{"unix:///a?mode=0660", "mode", `option "mode": "0660" is not a mode (did you mean permissions=0660?); use "shared" or "steered"`},
		{"tcp://:80?mode=shard", "mode", `option "mode": "shard" is not a mode (did you mean "shared"?); use "shared" or "steered"`},
		{"tcp://:80?mode=steered&reuseport", "mode", `option "mode": a socket with reuseport cannot be steered, since others share its address; use "shared"`},
		{"udp://:80?mode=steered", "mode", `option "mode": only tcp sockets can be steered; use "shared"`},
		{"unix:///a?mode=steered", "mode", `option "mode": only tcp sockets can be steered; use "shared"`},
		{"tcp://:80?owner=www", "owner", `option "owner" is only for unix sockets with a path`},
		{"@a?permissions=660", "permissions", `option "permissions" is only for unix sockets with a path`},
		{"udp://:80?backlog=5", "backlog", `option "backlog" is only for sockets that take connections`},
		{"udp://:80?fastopen=5", "fastopen", `option "fastopen" is only for tcp sockets`},
		{"unix:///a?freebind", "freebind", `option "freebind" is only for internet sockets`},
		{"tcp4://:80?v6only", "v6only", `option "v6only" is only for IPv6 addresses`},
		{"tcp://1.2.3.4:80?v6only", "v6only", `option "v6only" is only for IPv6 addresses; use tcp6://`},
		{"tcp://localhost:80?v6only", "v6only", `option "v6only" is only for IPv6 addresses; use tcp6://`},
		{"tcp6://:80?v6only=false", "v6only", `option "v6only": tcp6:// is always IPv6 only; use tcp:// for both`},
		{"systemd:a?rcvbuf=5", "rcvbuf", `option "rcvbuf" cannot be given here: the .socket unit decides it`},
		{"systemd:a?backlog=5", "backlog", `option "backlog" cannot be given here: the .socket unit decides it`},
		{"systemd:", "", `there is no name after systemd:`},
		{"systemd://a", "", `write systemd:a, without slashes`},
		{"systemd:a:b", "", `the name "a:b" has a ':', which separates the names in LISTEN_FDNAMES`},
		{":80?name=a:b", "name", `the name "a:b" has a ':', which separates the names in LISTEN_FDNAMES`},
		{":80?name=a%0ab", "name", `the name "a\nb" has a character that is not printable ASCII`},
		{":80?name=" + strings.Repeat("a", 256), "name", `the name "` + strings.Repeat("a", 256) + `" has 256 characters; 255 are allowed`},
		{":80?name=", "name", `option "name": needs a value`},
		{"=tcp://:80", "name", `there is no name before '='`},
		{"8080", "", `there is no host; did you mean ":8080"?`},
		{"localhost", "", `"localhost" has no port; write HOST:PORT, or :PORT for every address of the machine`},
		{"[::1]", "", `"[::1]" has no port; write HOST:PORT, or :PORT for every address of the machine`},
		{"::1:80", "", `"::1:80": an IPv6 address goes in brackets, as in [::1]:8080`},
		{"tcp:8080", "", `did you mean "tcp://8080"?`},
		{"tcp://:http", "", `port "http" is not a number from 0 to 65535`},
		{"tcp://:65536", "", `port "65536" is not a number from 0 to 65535`},
		{"tcp://:", "", `port "" is not a number from 0 to 65535`},
		{"tcp://1.2.3.400:80", "", `"1.2.3.400" is neither an address nor a host name`},
		{"tcp://a b:80", "", `"a b" is neither an address nor a host name`},
		{"tcp://*:80", "", `"*" is neither an address nor a host name`},
		{"tcp://[host]:80", "", `"host" is not an IPv6 address`},
		{"tcp4://[::1]:80", "", `::1 is not an IPv4 address; use tcp:// or tcp6://`},
		{"udp6://127.0.0.1:80", "", `127.0.0.1 is not an IPv6 address; use udp:// or udp4://`},
		{"tcp://[::ffff:1.2.3.4]:80", "", `write the IPv4 address ::ffff:1.2.3.4 as 1.2.3.4`},
		{"tcp://[fe80::1]:80", "", `the link-local address fe80::1 needs its network interface: [fe80::1%eth0]`},
		{"http://:80", "", `unknown network "http" (did you mean "tcp"?); it is one of tcp, tcp4, tcp6, udp, udp4, udp6, unix, unixgram, unixpacket, systemd`},
		{"/run/a.sock", "", `a unix socket's path is written with its type, as in unix:///run/a.sock`},
		{"unix://run/a.sock", "", `the path "run/a.sock" is not absolute; did you mean "unix:///run/a.sock"?`},
		{"unix:///run/", "", `the path "/run/" is that of a directory`},
		{"unix:///run/..", "", `the path "/run/.." is that of a directory`},
		{"unix://", "", `there is no path`},
		{"@", "", `there is no abstract name`},
		{"@a%00b", "", `the abstract name has a NUL byte`},
		{"unix:///50%", "", `'%' is not followed by two hexadecimal digits; write %25 for the character itself`},
		{"unix:///" + strings.Repeat("a", 107), "", `the path has 108 bytes; the kernel allows 107`},
		{"@" + strings.Repeat("a", 108), "", `the abstract name has 108 bytes; the kernel allows 107`},
	}
	for _, test := range tests {
		s, err := ParseSpec(test.text)
		var bad *SpecError
		if !errors.As(err, &bad) {
			t.Errorf("ParseSpec(%q) = %+v, %v; want a SpecError", test.text, s, err)
			continue
		}
		if want := (SpecError{test.text, test.option, test.reason}); *bad != want {
			t.Errorf("ParseSpec(%q):\ngot  %+v\nwant %+v", test.text, *bad, want)
		}
		if s != (Spec{}) {
			t.Errorf("ParseSpec(%q) returns %+v with its error", test.text, s)
		}
	}
}

// TestValidateFields checks what only a Spec filled in by hand can have.
func TestValidateFields(t *testing.T) {
	t.Parallel()
	for option, s := range map[string]Spec{
		"":             {Network: "tpc", Address: ":80"},
		"backlog":      {Network: TCP, Address: ":80", Backlog: -1},
		"rcvbuf":       {Network: TCP, Address: ":80", ReceiveBuffer: -1},
		"sndbuf":       {Network: TCP, Address: ":80", SendBuffer: -1},
		"fastopen":     {Network: TCP, Address: ":80", FastOpen: -1},
		"defer-accept": {Network: TCP, Address: ":80", DeferAccept: -time.Second},
		"permissions":  {Network: Unix, Address: "/a", Permissions: 0o1777},
		"mode":         {Network: TCP, Address: ":80", Mode: "x"},
		"device":       {Network: TCP, Address: ":80", Device: "0123456789abcdef"},
		"name":         {Network: TCP, Address: ":80", Name: "ä"},
	} {
		var bad *SpecError
		if err := s.Validate(); !errors.As(err, &bad) || bad.Option != option || bad.Text != s.String() {
			t.Errorf("Validate(%+v) = %#v, want an error about option %q", s, err, option)
		}
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"tcp://:80", "a=tcp://[::]:80", ":80?backlog=5", "tcp6://:80", ":80?v6only", "[::0]:080"},
		{"tcp4://:80", "tcp://0.0.0.0:80", "a=tcp4://0.0.0.0:80"},
		{"tcp://[::1]:80", "tcp6://[0::1]:80"},
		{"tcp://localhost:80", "tcp://LOCALHOST:80"},
		{"tcp4://localhost:80"},
		{"udp://:80"},
		{"tcp://:80?device=lo"},
		{"tcp://:81"},
		{"unix:///run/a", "unix:///run//a", "unix:///run/b/../a", "unixgram:///run/a"},
		{"@run/a"},
		{"unixgram:@run/a"},
		{"systemd:a", "b=systemd:a"},
		{"systemd:b"},
	} {
		key := mustParse(t, same[0]).Key()
		for _, text := range same {
			if got := mustParse(t, text).Key(); got != key {
				t.Errorf("%s has key %q, want that of %s, %q", text, got, same[0], key)
			}
		}
		for _, other := range []string{"tcp://:82", "tcp://127.0.0.1:80", "unix:///run/c", "@c", "systemd:c"} {
			if mustParse(t, other).Key() == key {
				t.Errorf("%s and %s have the same key %q", same[0], other, key)
			}
		}
	}
}

func TestFDName(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http=:80":               "http",
		":80":                    "tcp-80",
		"tcp4://127.0.0.1:80":    "tcp4-127.0.0.1-80",
		"udp://[::1]:53":         "udp-[--1]-53",
		"unix:///run/a:b":        "unix-/run/a-b",
		"@ä":                     "unix-@-",
		"systemd:web":            "web",
		"unixgram:///run/a b%7f": "unixgram-/run/a b-",
	} {
		if got := mustParse(t, text).FDName(); got != want {
			t.Errorf("FDName of %s = %q, want %q", text, got, want)
		}
	}
	long := Spec{Network: TCP, Address: strings.Repeat("a.", 126) + "a:80"}
	if got := long.FDName(); nameProblem(got) != "" {
		t.Errorf("FDName of a long host name %s", nameProblem(got))
	}
}

func TestValidateSet(t *testing.T) {
	t.Parallel()
	tests := []struct {
		specs        []string
		index, other int // -1: right
		reason       string
	}{
		{[]string{}, -1, -1, ""},
		{[]string{":80", "udp://:80", ":81", "@a", "unixgram:@a", "unix:///a", "systemd:a"}, -1, -1, ""},
		{[]string{"a=:0", "b=:0"}, -1, -1, ""},
		{[]string{"a=systemd:x", "b=systemd:x"}, -1, -1, ""},
		{[]string{"tcp4://:80", "tcp6://:80"}, -1, -1, ""},
		{[]string{"127.0.0.1:80", "127.0.0.2:80", "[::1]:80"}, -1, -1, ""},
		{[]string{":80?device=a", "b=:80?device=b"}, -1, -1, ""},
		{[]string{":80?reuseport", "b=:80?reuseport"}, -1, -1, ""},
		{[]string{":80", "unix:///x", "b=[::]:80"}, 2, 0, `the address is taken by tcp://:80 "tcp-80" already`},
		{[]string{":80", "127.0.0.1:80"}, 1, 0, `the address is taken by tcp://:80 "tcp-80" already`},
		{[]string{"[::1]:80", "tcp6://:80"}, 1, 0, `the address is taken by tcp://[::1]:80 "tcp-[--1]-80" already`},
		{[]string{":80?device=a", "b=:80"}, 1, 0, `the address is taken by tcp://:80 "tcp-80" already`},
		{[]string{"localhost:80", "b=LocalHost:80"}, 1, 0, `the address is taken by tcp://localhost:80 "tcp-localhost-80" already`},
		{[]string{"unix:///a", "unixgram:///b/../a"}, 1, 0, `the address is taken by unix:///a "unix-/a" already`},
		{[]string{"@a", "b=@a"}, 1, 0, `the address is taken by @a "unix-@a" already`},
		{[]string{"a=:80", "a=:81"}, 1, 0, `the name "a" is that of tcp://:80 already`},
		{[]string{"systemd:x", "systemd:x"}, 1, 0, `the name "x" is that of systemd:x already`},
	}
	for _, test := range tests {
		var specs []Spec
		for _, text := range test.specs {
			specs = append(specs, mustParse(t, text))
		}
		err := ValidateSet(specs)
		var set *SetError
		var bad *SpecError
		switch {
		case test.index < 0 && err != nil:
			t.Errorf("ValidateSet(%q): %v", test.specs, err)
		case test.index < 0:
		case !errors.As(err, &set) || !errors.As(err, &bad):
			t.Errorf("ValidateSet(%q) = %v, want a SetError", test.specs, err)
		case set.Index != test.index || set.Other != test.other || bad.Reason != test.reason:
			t.Errorf("ValidateSet(%q):\ngot  %d, %d, %s\nwant %d, %d, %s", test.specs, set.Index, set.Other, bad.Reason, test.index, test.other, test.reason)
		}
	}
	err := ValidateSet([]Spec{mustParse(t, ":80"), {Network: "x"}})
	var set *SetError
	if !errors.As(err, &set) || set.Index != 1 || set.Other != -1 {
		t.Errorf("ValidateSet with an invalid spec: %v", err)
	}
}

func FuzzParseSpec(f *testing.F) {
	for _, seed := range []string{
		"http=tcp://:8080?mode=shared&backlog=1024", "[fe80::1%eth0]:80", "udp6://[::1]:53?device=lo&mark=7",
		"unix:///run/a%3fb?owner=www&group=0&permissions=0660", "@a=b", "unixgram:@x%25", "systemd:web?name=a/b%3d",
		"tcp4://localhost:0?defer-accept=3s&fastopen=1&nonblocking", "%", "?", "=", "a=b=c", "tcp:", "unix:@",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpec(text)
		if err != nil {
			var bad *SpecError
			if !errors.As(err, &bad) || bad.Reason == "" || s != (Spec{}) {
				t.Fatalf("ParseSpec(%q) = %+v, %v", text, s, err)
			}
			return
		}
		if err := s.Validate(); err != nil {
			t.Fatalf("ParseSpec(%q) is not valid: %v", text, err)
		}
		again, err := ParseSpec(s.String())
		if err != nil || again != s {
			t.Fatalf("%q: %q is read as %+v, %v; want %+v", text, s.String(), again, err, s)
		}
		if again.Key() != s.Key() || s.Key() == "" {
			t.Fatalf("%q has keys %q and %q", text, s.Key(), again.Key())
		}
		if problem := nameProblem(s.FDName()); problem != "" || s.FDName() == "" {
			t.Fatalf("%q: the name %q %s", text, s.FDName(), problem)
		}
		if !s.conflicts(s) && s.Network != Systemd && !s.ReusePort && !strings.HasSuffix(s.Key(), ":0") && s.Device == "" {
			t.Fatalf("%q does not conflict with itself", text)
		}
	})
}

func mustParse(t *testing.T, text string) Spec {
	t.Helper()
	s, err := ParseSpec(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
