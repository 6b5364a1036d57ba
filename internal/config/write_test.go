package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// reread writes a file of what a source says, and loads that one.
func reread(t *testing.T, s *Source) (said, read *Config, text string) {
	t.Helper()
	said = load(t, s)
	text, err := s.File(said)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := source(t, write(t, t.TempDir(), "again.toml", text))
	read = load(t, elsewhere)
	said.Places, read.Places = nil, nil
	return said, read, text
}

// What the flags say is in the file, every key of it.
func TestFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "env", "A=B\n")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "releases/one"), 0o755), os.Symlink("releases/one", filepath.Join(dir, "current"))); err != nil {
		t.Fatal(err)
	}
	// Keys that exclude each other, or some values of them, come in different lines.
	lines := [][]string{
		{"--name=n", "--directory=d", "--environment=A=1", "--environment=B=2=\"3\"\n", "--environment=A=4", "--environment-file=env", "--environment-file=-no",
			"--user=root", "--group=root", "--umask=77", "--limits=nofile=1:2", "--limits", "core=infinity", "--cgroup=off", "--watchdog=1s", "--fail-fast", "--preset=nginx", "--pass=server-starter", "--pass=einhorn",
			"--runtime-directory=r", "--state-directory=s", "--mode=steered", "--listen=one=:1?backlog=5&protocol=http/1&v6only=false", "--listen=udp://:1?overlap=false",
			`--check-command=x 'a b' "" \'`, "--check-timeout=2s", "--ready-by=fd", "--ready-fd=5", "--ready-timeout=3s",
			"--probe-path=/p", "--probe-host=h:1", "--probe-status=200", "--probe-count=2", "--probe-timeout=5s", "--probe-interval=6s", "--probe-socket=one",
			"--handoff-canary=5%", "--handoff-canary-time=7s", "--handoff-soak=8s", "--handoff-keepalive=carry", "--handoff-carry-wait=1s", "--handoff-carry-idle=2s", "--handoff-carry-relays=3",
			"--settle-max=0s", "--upgrade-timeout=7s", "--drain-linger=9s", "--drain-signal=SIGUSR1", "--drain-timeout=4s", "--drain-generations=1",
			"--handoff-probation=9s", "--handoff-auto-rollback", "--hooks-before-cutover=a 'b c'", "--hooks-after-live=d", "--hooks-after-gone=e", "--hooks-timeout=8s",
			"--log-format=json", "--metrics-listen=localhost:9600", "--releases-directory=releases", "--releases-current=current", "--releases-keep=3", "--", "c", "a \\b\t\"é"},
		{"--mode=shared", "--listen=unix:///run/a%3fb%26c%25?owner=root&group=root&permissions=660", "--listen=x=@abstract", "--listen", "ctl=tcp6://[::1]:9?defer-accept=2s&nonblocking",
			"--ready-by=exec", "--ready-command=test -e 'a b'", "--ready-interval=3s", "--", "./svc"},
		{"--listen=:1", "--ready-by=http", "--ready-path=/x", "--ready-host=h", "--ready-socket=tcp-1", "--", "svc"},
		{"--pass=", "--ready-by=delay", "--ready-delay=2s", "--fail-fast=false", "--", "svc"},
	}
	written := make(map[string]bool)
	for _, line := range lines {
		s := source(t, "", line...)
		s.WorkingDirectory = dir
		said, read, text := reread(t, s)
		if !reflect.DeepEqual(said, read) {
			t.Errorf("%q became\n%s\nwhich says %+v\nand not     %+v", line, text, read, said)
		}
		s.Flags.Visit(func(f *pflag.Flag) { written[f.Name] = true })
	}
	for _, key := range Keys() {
		if key.Flag() != "" && !written[key.Flag()] {
			t.Errorf("this test does not write %s", key.Name)
		}
	}
}

// A value that TOML has no words for is refused.
func TestFileIsText(t *testing.T) {
	t.Parallel()
	s := source(t, "", "--name=n", "--", "svc", "\xff")
	if _, err := s.File(load(t, s)); !errors.Is(err, errNotText) {
		t.Errorf("got %v", err)
	}
}

func TestPrivileges(t *testing.T) {
	t.Parallel()
	of := func(args ...string) string {
		t.Helper()
		var names []string
		for _, p := range load(t, source(t, "", append(args, "--", "svc")...)).Privileges() {
			if slices.Contains(names, p.Capability) || p.For == "" {
				t.Errorf("%q: %+v", args, p)
			}
			names = append(names, strings.TrimPrefix(p.Capability, "CAP_"))
		}
		return strings.Join(names, " ")
	}
	dir := t.TempDir()
	releases, current := filepath.Join(dir, "releases"), filepath.Join(dir, "current")
	if err := errors.Join(os.MkdirAll(filepath.Join(releases, "v1"), 0o755), os.Symlink("releases/v1", current)); err != nil {
		t.Fatal(err)
	}
	const user = "SETUID SETGID KILL SYS_PTRACE"
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen=:80"}, ""},
		{[]string{"--user=root", "--listen=:80"}, ""},
		{[]string{"--user=nobody", "--listen=:8080", "--listen=:0"}, user + " DAC_READ_SEARCH"},
		{[]string{"--user=nobody", "--listen=:80", "--listen=udp://:53"}, user + " NET_BIND_SERVICE DAC_READ_SEARCH"},
		{[]string{"--user=nobody", "--listen=unix:///run/a", "--listen=@a"}, user + " DAC_OVERRIDE DAC_READ_SEARCH"},
		{[]string{"--user=nobody", "--listen=unix:///run/a?owner=nobody"}, user + " DAC_OVERRIDE CHOWN FOWNER DAC_READ_SEARCH"},
		{[]string{"--user=nobody", "--listen=:8080", "--releases-directory=" + releases, "--releases-current=" + current}, user + " DAC_OVERRIDE DAC_READ_SEARCH"},
		{[]string{"--user=nobody", "--listen=:1024?mark=1&device=lo", "--limits=nofile=9"}, user + " NET_ADMIN NET_RAW SYS_RESOURCE DAC_READ_SEARCH"},
	} {
		if got := of(tc.args...); got != tc.want {
			t.Errorf("%q: %s, want %s", tc.args, got, tc.want)
		}
	}
}
