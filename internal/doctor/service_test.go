package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
)

// one returns the only finding that is not fine, or the only one.
func one(t *testing.T, r report) Finding {
	t.Helper()
	var bad []Finding
	for _, f := range r.findings {
		if f.Severity != Fine {
			bad = append(bad, f)
		}
	}
	switch {
	case len(bad) == 1:
		return bad[0]
	case len(bad) == 0 && len(r.findings) > 0:
		return r.findings[0]
	}
	t.Errorf("want one finding, got %+v", r.findings)
	return Finding{}
}

// What the kernel of this machine does is found by doing it.
func TestKernel(t *testing.T) {
	t.Parallel()
	var r report
	machine{proc: "/proc"}.kernel(&r)
	if len(r.findings) != 5 {
		t.Errorf("got %+v", r.findings)
	}
	for _, f := range r.findings[:3] {
		if f.Severity != Fine {
			t.Errorf("%+v", f)
		}
	}
}

// fakeProc is a /proc with these numbers.
func fakeProc(t *testing.T, numbers map[string]int) machine {
	t.Helper()
	m := machine{proc: t.TempDir()}
	for path, n := range numbers {
		path = filepath.Join(m.proc, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, fmt.Appendln(nil, n), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

const scope = "sys/kernel/yama/ptrace_scope"

func TestYama(t *testing.T) {
	t.Parallel()
	for value, want := range []Severity{Fine, Fine, Fine, Warns} {
		var r report
		fakeProc(t, map[string]int{scope: value}).tracing(&r)
		if got := one(t, r); got.Severity != want || !strings.Contains(got.What, fmt.Sprintf("ptrace_scope=%d", value)) {
			t.Errorf("%d: %+v", value, got)
		}
	}
	carries := &config.Config{Handoff: config.Handoff{KeepAlive: config.KeepAliveCarry}}
	for _, tc := range []struct {
		value int
		user  string
		fails bool
	}{{1, "", false}, {1, "www", false}, {2, "", false}, {2, "www", true}, {3, "", true}} {
		var r report
		fakeProc(t, map[string]int{scope: tc.value}).limits(&r, carries, unitWith(map[string]string{"User": tc.user}))
		if Failed(r.findings) != tc.fails {
			t.Errorf("%+v: %+v", tc, r.findings)
		}
		r = report{}
		fakeProc(t, map[string]int{scope: tc.value}).limits(&r, new(config.Config), unitWith(nil))
		if len(r.findings) > 0 {
			t.Errorf("without carrying: %+v", r.findings)
		}
	}
}

// What a supervisor has found out is told where connections are to be carried over.
func TestUncarried(t *testing.T) {
	t.Parallel()
	carries := &config.Config{Handoff: config.Handoff{KeepAlive: config.KeepAliveCarry}}
	for _, tc := range []struct {
		cfg  *config.Config
		why  string
		told bool
	}{{carries, "it shuts them down", true}, {carries, "", false}, {new(config.Config), "it shuts them down", false}} {
		var r report
		uncarried(&r, tc.cfg, tc.why)
		if told := len(r.findings) == 1 && r.findings[0].Severity == Warns && strings.Contains(r.findings[0].What, tc.why); told != tc.told || !tc.told && len(r.findings) > 0 {
			t.Errorf("%+v: %+v", tc, r.findings)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	var r report
	m := fakeProc(t, map[string]int{"sys/fs/nr_open": 1000, "sys/net/core/somaxconn": 128})
	m.limits(&r, &config.Config{Limits: []config.Limit{{Name: "core", Hard: 2000}, {Name: "nofile", Resource: unix.RLIMIT_NOFILE, Hard: 1001}}}, nil)
	if f := one(t, r); f.Severity != Fails || f.Fix != "sysctl -w fs.nr_open=1001" {
		t.Errorf("%+v", f)
	}
	r = report{}
	m.limits(&r, new(config.Config), unitWith(map[string]string{"LimitNOFILE": "1024"}))
	if f := one(t, r); f.Severity != Warns || !strings.Contains(f.Fix, "LimitNOFILE=524288") {
		t.Errorf("%+v", f)
	}
	r = report{}
	m.sockets(t.Context(), &r, &config.Config{Sockets: []fdpass.Spec{{Name: "http", Network: fdpass.TCP, Address: "127.0.0.1:0", Backlog: 129}}}, nil)
	if f := one(t, r); f.Severity != Warns || f.Fix != "sysctl -w net.core.somaxconn=129" {
		t.Errorf("%+v", f)
	}
	r = report{}
	m.sockets(t.Context(), &r, new(config.Config), nil)
	if f := one(t, r); f.Severity != Warns || !strings.Contains(f.Fix, "[[socket]]") {
		t.Errorf("%+v", f)
	}
}

// A port that somebody has is told with who that is.
func TestPorts(t *testing.T) {
	t.Parallel()
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	free, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	port := func(a net.Addr) string { _, port, _ := net.SplitHostPort(a.String()); return port }
	// By name, since one that another test is just starting has the same sockets until it is executed.
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	us := fmt.Sprintf("(%s)", bytes.TrimSpace(comm))
	for _, tc := range []struct{ network, address, what string }{
		{fdpass.TCP, tcp.Addr().String(), us},
		{fdpass.TCP, ":" + port(tcp.Addr()), us},
		{fdpass.TCP4, "0.0.0.0:" + port(tcp.Addr()), us},
		{fdpass.TCP, "127.0.0.2:" + port(tcp.Addr()), "is free"},
		{fdpass.UDP, udp.LocalAddr().String(), us},
		{fdpass.TCP, free.Addr().String(), "is free"},
	} {
		var r report
		machine{proc: "/proc"}.port(&r, fdpass.Spec{Network: tc.network, Address: tc.address}, nil)
		if f := one(t, r); !strings.Contains(f.What, tc.what) || (f.Severity == Fails) != (tc.what == us) {
			t.Errorf("%s %s: %+v", tc.network, tc.address, f)
		}
	}
}

func TestUnixPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "sock"): "is there", filepath.Join(dir, "file/sock"): "not a directory", filepath.Join(dir, "none/sock"): "does not exist",
	} {
		var r report
		unixPath(&r, fdpass.Spec{Name: "s", Network: fdpass.Unix, Address: path}, nil)
		f := one(t, r)
		if !strings.Contains(f.What, want) || (f.Severity == Fails) != (want != "is there") {
			t.Errorf("%s: %+v", path, f)
		}
	}
	var r report
	if unixPath(&r, fdpass.Spec{Network: fdpass.Unix, Address: "@x"}, nil); len(r.findings) > 0 {
		t.Errorf("an abstract name: %+v", r.findings)
	}
}

// A directory that the unit makes is not there before it is started.
func TestRuntimeDirectoryOfTheUnit(t *testing.T) {
	t.Parallel()
	u := unitWith(map[string]string{"RuntimeDirectory": "zddsupervisor/svc zdd-no-such-thing"})
	for dir, want := range map[string]Severity{"/run/zdd-no-such-thing": Fine, "/run/zdd-no-such": Fails, "/run/zdd-no-such-thing/below": Fails} {
		var r report
		unixPath(&r, fdpass.Spec{Name: "s", Network: fdpass.Unix, Address: dir + "/sock"}, u)
		if got := one(t, r); got.Severity != want {
			t.Errorf("%s: %+v", dir, got)
		}
	}
}

// What a terminal would obey is not shown to it.
func TestTextWithoutControls(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := WriteText(&out, []Finding{{About: "a\x1b[2Jb", What: "a\nb\x1b[2J\u009bc\x7fd", Severity: Fails, Means: "x\x07y", Fix: "p\rq"}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range out.String() {
		if r != '\n' && unicode.IsControl(r) {
			t.Errorf("%q", out.String())
			break
		}
	}
	if !strings.Contains(out.String(), "a b [2J c d\n") {
		t.Errorf("%q", out.String())
	}
}

// A shell that stays in front of the service is found, and none that does not.
func TestWithoutExec(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := func(text string) child.Command {
		path := filepath.Join(dir, fmt.Sprint(len(text)))
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return child.Command{Path: path}
	}
	for _, tc := range []struct {
		command child.Command
		found   bool
	}{
		{child.Command{Path: "/bin/sh", Args: []string{"sh", "-c", "cd /srv && ./svc"}}, true},
		{child.Command{Path: "/bin/bash", Args: []string{"bash", "-ec", "A=1; svc --exec-mode"}}, true},
		{child.Command{Path: "/bin/sh", Args: []string{"sh", "-c", "cd /srv && exec ./svc"}}, false},
		{child.Command{Path: "/bin/sh", Args: []string{"sh", "-c", "./svc"}}, false},
		{child.Command{Path: "/bin/svc", Args: []string{"svc", "-c", "a; b"}}, false},
		{script("#!/bin/sh\ncd /srv\n./svc\n"), true},
		{script("#!/usr/bin/env bash\nset -e\nsvc &\nwait\n"), true},
		{script("#!/bin/sh\nset -e\nexec ./svc\n"), false},
		{script("#!/usr/bin/python3\nimport os\n"), false},
		{child.Command{Path: "/bin/true"}, false},
	} {
		if got := withoutExec(tc.command); (got != "") != tc.found {
			t.Errorf("%+v: %q", tc.command, got)
		}
	}
}

// What is wrong with configuration and files is told before anything is started.
func TestService(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "svc.toml")
	examine := func(text string) report {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var r report
		source := &config.Source{Path: file, Getenv: func(string) string { return "/run/svc" }}
		if cfg := load(&r, source); cfg != nil {
			service(&r, cfg, func(cfg *config.Config) ([]child.Command, error) {
				c := child.Command{Path: cfg.Command[0], Args: cfg.Command, Dir: cfg.Directory}
				return []child.Command{c}, nil
			})
		}
		return r
	}
	for _, tc := range []struct{ text, what, fix string }{
		{"command = [\"/bin/true\"]\n", "can be used", ""},
		{"command = [\"/no/such/program\"]\n", "/no/such/program", "correct command"},
		{"command = [\"/bin/true\"]\ndirectory = \"/no/such\"\n", "working directory /no/such does not exist", "correct command or directory"},
		{"command = [\"/bin/true\"]\nenvironment-file = [\"/no/such/env\"]\n", "/no/such/env", "correct " + file},
		{"command = [\"/bin/true\"]\nuser = \"no-such-user\"\n", "no-such-user", "correct " + file},
		{"command = [\"/bin/true\"]\n[releases]\ndirectory = \"/usr\"\ncurrent = \"/usr/bin\"\n", "not a symbolic link", "correct " + file},
		{"comand = [\"/bin/true\"]\n", `unknown key "comand"`, "correct " + file},
	} {
		r := examine(tc.text)
		f := r.findings[0]
		if tc.fix != "" {
			for _, f = range r.findings {
				if f.Severity == Fails {
					break
				}
			}
		}
		if !strings.Contains(f.What, tc.what) || !strings.Contains(f.Fix, tc.fix) || (f.Severity == Fails) != (tc.fix != "") {
			t.Errorf("%s: %+v", tc.text, r.findings)
		}
	}
}

func TestWriteText(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	err := WriteText(&b, []Finding{
		{"kernel", Fine, "good", "", ""},
		{"unit", Fails, "bad", "nothing works", "Type=notify"},
		{"unit", Warns, "so so", "some things\nwork", "x"},
		{"unit", Unseen, "dark", "", ""},
	})
	const want = `kernel
  ok      good

unit
  fails   bad
          nothing works
          fix: Type=notify
  warns   so so
          some things work
          fix: x
  unseen  dark

1 thing will not work, 1 could be better, 1 could not be looked at
`
	if err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, b.String())
	}
}
