package child_test

import (
	"context"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
)

// file writes one in a directory of its own, which others may enter.
func file(t testing.TB, name, content string, mode fs.FileMode) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "child-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// brokenELF is a copy of the program true with a few bytes changed.
func brokenELF(t testing.TB, change func(b []byte)) string {
	t.Helper()
	b, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	change(b)
	return file(t, "svc", string(b), 0o755)
}

func TestExecErrors(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/no/such/target", link); err != nil {
		t.Fatal(err)
	}
	notExecutable := file(t, "svc", "#!/bin/sh\n", 0o644)
	badInterpreter := file(t, "run", "#! /no/such  -x\n", 0o755)
	crlf := file(t, "run", "#!/bin/sh\r\nexit 0\r\n", 0o755)
	badSecond := file(t, "run", "#!"+notExecutable+"\n", 0o755)
	text := file(t, "svc", "exit 0\n", 0o755)
	empty := file(t, "svc", "", 0o755)
	noLoader := brokenELF(t, func(b []byte) {
		i := strings.Index(string(b), "/ld-")
		copy(b[i:], "/no-")
	})
	foreign := brokenELF(t, func(b []byte) { b[18], b[19] = byte(elf.EM_SPARCV9), 0 })
	var long []string
	for range 40 {
		long = append(long, strings.Repeat("x", 120<<10))
	}
	for name, test := range map[string]struct {
		command child.Command
		stage   child.Stage
		err     error
		text    string
	}{
		"missing":                    {child.Command{Path: "/srv/x/bin/svc"}, child.StageExec, unix.ENOENT, "cannot start /srv/x/bin/svc: no such file or directory"},
		"missing, relative":          {child.Command{Path: "bin/svc", Dir: "/usr"}, child.StageExec, fs.ErrNotExist, "cannot start bin/svc: no such file or directory"},
		"dangling link":              {child.Command{Path: link}, child.StageExec, unix.ENOENT, `it is a symbolic link to "/no/such/target", which does not exist`},
		"not executable":             {child.Command{Path: notExecutable}, child.StageExec, unix.EACCES, "it is not executable (mode 0644)"},
		"directory":                  {child.Command{Path: dir}, child.StageExec, unix.EACCES, "it is a directory"},
		"below a file":               {child.Command{Path: text + "/svc"}, child.StageExec, unix.ENOTDIR, "not a directory"},
		"interpreter missing":        {child.Command{Path: badInterpreter}, child.StageExec, unix.ENOENT, badInterpreter + `: its interpreter "/no/such" does not exist`},
		"carriage return":            {child.Command{Path: crlf}, child.StageExec, unix.ENOENT, `its interpreter "/bin/sh\r" does not exist`},
		"interpreter not executable": {child.Command{Path: badSecond}, child.StageExec, unix.EACCES, `cannot be executed: it is not executable (mode 0644)`},
		"loader missing":             {child.Command{Path: noLoader}, child.StageExec, unix.ENOENT, `/no-`},
		"other machine":              {child.Command{Path: foreign}, child.StageExec, unix.ENOEXEC, "another kind of machine (EM_SPARCV9)"},
		"text":                       {child.Command{Path: text}, child.StageExec, unix.ENOEXEC, "neither a program for this system nor a script"},
		"empty":                      {child.Command{Path: empty}, child.StageExec, unix.ENOEXEC, "its file is empty"},
		"too long":                   {child.Command{Path: "/bin/true", Args: long}, child.StageExec, unix.E2BIG, "too long"},
		"one too long":               {child.Command{Path: "/bin/true", Env: []string{"A=" + strings.Repeat("x", 9<<20)}}, child.StageExec, unix.E2BIG, "too long"},
		"not in PATH":                {child.Command{Path: "no-such-program", Env: []string{"PATH=/usr/bin:/bin"}}, child.StageExec, fs.ErrNotExist, "it is in no directory of its PATH (/usr/bin:/bin)"},
		"not executable in PATH":     {child.Command{Path: "svc", Env: []string{"PATH=" + filepath.Dir(notExecutable)}}, child.StageExec, fs.ErrPermission, "not executable"},
		"no directory":               {child.Command{Path: "/bin/true", Dir: "/no/such"}, child.StageDirectory, unix.ENOENT, "its working directory /no/such does not exist"},
		"file as directory":          {child.Command{Path: "/bin/true", Dir: text}, child.StageDirectory, unix.ENOTDIR, "is not a directory"},
		"limit upside down":          {child.Command{Path: "/bin/true", Limits: []child.Limit{{Resource: unix.RLIMIT_NOFILE, Cur: 9, Max: 8}}}, child.StageLimits, unix.EINVAL, "its limit RLIMIT_NOFILE cannot be set to 9:8: the soft limit is above the hard one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := r.Start(t.Context(), test.command)
			var e *child.ExecError
			if !errors.As(err, &e) {
				t.Fatalf("got %v, %v", p, err)
			}
			if e.Stage != test.stage || !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got stage %s, error %v: %s; want %s, %v: %s", e.Stage, e.Err, err, test.stage, test.err, test.text)
			}
			if strings.Contains(err.Error(), "errno") || strings.Contains(err.Error(), "\n") {
				t.Errorf("not fit for a user: %s", err)
			}
		})
	}
}

// Where it is the service's user who may not do something, the sentence says so.
func TestExecErrorsOfUser(t *testing.T) {
	needRoot(t)
	t.Parallel()
	r := newReaper(t)
	nobody := &child.Credential{UID: 54321, GID: 54322}
	closed := file(t, "svc", "#!/bin/sh\n", 0o755)
	if err := os.Chmod(filepath.Dir(closed), 0o700); err != nil {
		t.Fatal(err)
	}
	owned := file(t, "svc", "#!/bin/sh\n", 0o750)
	for name, test := range map[string]struct {
		command child.Command
		stage   child.Stage
		text    string
	}{
		"directory of the program": {child.Command{Path: closed}, child.StageExec, "the user 54321 with the group 54322 may not enter the directory " + filepath.Dir(closed)},
		"program":                  {child.Command{Path: owned}, child.StageExec, "the user 54321 with the group 54322 may not execute it (mode 0750)"},
		"working directory":        {child.Command{Path: "/bin/true", Dir: filepath.Dir(closed)}, child.StageDirectory, "the user 54321 with the group 54322 may not enter its working directory " + filepath.Dir(closed)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.command.Credential = nobody
			_, err := r.Start(t.Context(), test.command)
			var e *child.ExecError
			if !errors.As(err, &e) || e.Stage != test.stage || !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %s", err, test.text)
			}
		})
	}
}

// Without privileges one may become oneself and nobody else.
func TestCredentialWithoutPrivileges(t *testing.T) {
	needRoot(t)
	t.Parallel()
	r := newReaper(t)
	self := file(t, "svc", "", 0o755)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// Not by this process: one that another test forks just then would have it open for writing, and it could not be executed.
	if out, err := exec.Command("cp", program, self).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := helper("become")
	c.Path = self
	c.Credential = &child.Credential{UID: 54321, GID: 54322, Groups: []uint32{54323}}
	got := strings.Split(run(t, r, c), "\n")
	if len(got) != 4 || got[0] != "54321 54322 54322 54323" && got[0] != "54321 54322 54323" {
		t.Fatalf("got %q", got)
	}
	if want := "may not become the user 0 with the group 0: it has to run as root, or with CAP_SETUID and CAP_SETGID"; !strings.Contains(got[1], want) {
		t.Errorf("becoming root: %s", got[1])
	}
	if want := "its limit RLIMIT_NOFILE cannot be set to infinity:infinity: it is above the supervisor's own hard limit"; !strings.Contains(got[2], want) {
		t.Errorf("raising a limit: %s", got[2])
	}
}

func TestCredential(t *testing.T) {
	needRoot(t)
	t.Parallel()
	r := newReaper(t)
	c := child.Command{Path: "/bin/cat", Args: []string{"cat", "/proc/self/status"}}
	c.Credential = &child.Credential{UID: 54321, GID: 54322, Groups: []uint32{5, 6}}
	out := run(t, r, c)
	for name, want := range map[string]string{
		"Uid":    "54321\t54321\t54321\t54321",
		"Gid":    "54322\t54322\t54322\t54322",
		"Groups": "5 6",
		"CapPrm": "0000000000000000",
		"CapEff": "0000000000000000",
		"CapAmb": "0000000000000000",
	} {
		if got := field(out, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	c.Credential = &child.Credential{UID: 54321, GID: 54322}
	if got := field(run(t, r, c), "Groups"); got != "" {
		t.Errorf("groups %q of the supervisor are left", got)
	}
	c.Credential = &child.Credential{UID: 1<<32 - 1, GID: 5}
	if _, err := r.Start(t.Context(), c); err == nil {
		t.Error("the number that means \"stay root\" was taken")
	}
}

func TestForkFails(t *testing.T) {
	needRoot(t)
	if !alone(t) {
		return
	}
	r := newReaper(t)
	// Of open files: none is left for the start.
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	out := newOutput(t)
	low := before
	low.Cur = uint64(out.write.Raw()) + 1
	if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, (*syscall.Rlimit)(&low)); err != nil {
		t.Fatal(err)
	}
	_, err := r.Start(t.Context(), child.Command{Path: "/bin/true"})
	if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, (*syscall.Rlimit)(&before)); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("without descriptors: %v", err)
	}
	run(t, r, child.Command{Path: "/bin/true"})
}

func TestStartIsCancelled(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	gone := errors.New("changed our mind")
	for _, after := range []time.Duration{0, time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond} {
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(after, func() { cancel(gone) })
		p, err := r.Start(ctx, sh("exec sleep 1000"))
		timer.Stop()
		cancel(nil)
		switch {
		case err == nil: // it was faster
			if err := p.Tree().Kill(deadline(t)); err != nil {
				t.Error(err)
			}
			p.Close()
		case !errors.Is(err, gone):
			t.Errorf("after %v: %v", after, err)
		}
	}
}

func TestInvalidCommands(t *testing.T) {
	t.Parallel()
	r := newReaper(t)
	fd := listener(t)
	for name, c := range map[string]child.Command{
		"empty":                  {},
		"NUL in an argument":     {Path: "/bin/true", Args: []string{"a\x00b"}},
		"NUL in the environment": {Path: "/bin/true", Env: []string{"a\x00b"}},
		"colon in a name":        {Path: "/bin/true", Sockets: []child.NamedFD{{Name: "a:b", FD: fd}}},
		"newline in a name":      {Path: "/bin/true", Sockets: []child.NamedFD{{Name: "a\nb", FD: fd}}},
	} {
		if _, err := r.Start(t.Context(), c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
