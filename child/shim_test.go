package child_test

import (
	"bytes"
	"errors"
	_ "net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child/internal/shim"
)

// runShim runs this binary as a shim and returns what it and its program have
// written to stderr. env is the environment of the shim.
func runShim(t *testing.T, argv0 string, spec []byte, env ...string) (stderr string, report *shim.Report, err error) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	defer theirs.Close()
	if _, err := ours.Write(spec); err != nil {
		t.Fatal(err)
	}
	if err := unix.Shutdown(pair[0], unix.SHUT_WR); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	cmd.Args[0] = argv0
	cmd.Env = append(env, shim.Variable+"=3")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = &out
	runErr := cmd.Run()
	theirs.Close()
	var said [64]byte
	n, _ := ours.Read(said[:])
	report, err = shim.DecodeReports(said[:n])
	return out.String(), report, errors.Join(runErr, err)
}

// The child must not pay for the packages of the supervisor. This test binary has
// net/http and cobra in it, as the supervisor has.
func TestShimRunsFirst(t *testing.T) {
	t.Parallel()
	spec, err := shim.Encode(&shim.Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "env >&2"}, Keep: 3})
	if err != nil {
		t.Fatal(err)
	}
	stderr, report, err := runShim(t, shim.Name, spec, "GODEBUG=inittrace=1", "GOGC=off")
	if err != nil || report != nil {
		t.Fatalf("%v, %+v: %s", err, report, stderr)
	}
	var inits []string
	for _, match := range regexp.MustCompile(`(?m)^init (\S+) @`).FindAllStringSubmatch(stderr, -1) {
		inits = append(inits, match[1])
	}
	if !slices.Contains(inits, "runtime") || !slices.Contains(inits, "syscall") {
		t.Fatalf("the trace shows nothing: %s", stderr)
	}
	for _, name := range inits {
		for _, heavy := range []string{"os", "net", "fmt", "time", "reflect", "golang.org/", "github.com/", "net/", "os/", "context", "crypto/tls", "testing"} {
			if name == heavy || strings.HasSuffix(heavy, "/") && strings.HasPrefix(name, heavy) {
				t.Errorf("%s was initialised before the shim; all of them: %q", name, inits)
			}
		}
	}
	if len(inits) > 25 {
		t.Errorf("%d packages were initialised before the shim: %q", len(inits), inits)
	}
	t.Logf("initialised before the shim: %q", inits)
	// What the shim itself is given does not reach the program.
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "GO") || strings.HasPrefix(line, shim.Variable) {
			t.Errorf("the program has the variable %s", line)
		}
	}
}

// Neither the variable nor the name alone makes a shim.
func TestNoShim(t *testing.T) {
	t.Parallel()
	spec, err := shim.Encode(&shim.Spec{Path: "/bin/sh", Args: []string{"sh", "-c", "echo a shim >&2"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, argv0 := range []string{"child.test", "", shim.Name + "x", shim.Name[1:]} {
		stderr, _, _ := runShim(t, argv0, spec)
		if strings.Contains(stderr, "a shim") {
			t.Errorf("%q became a shim", argv0)
		}
	}
	for _, value := range []string{"", "0", "2", "x", "3x", "99999999999999999999", "-1"} {
		cmd := exec.Command("/proc/self/exe", "-test.run=^$")
		cmd.Args[0] = shim.Name
		cmd.Env = []string{shim.Variable + "=" + value}
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
			t.Errorf("with the descriptor %q: %v: %s", value, err, out)
		}
	}
}

// A shim that is told nonsense says so and starts nothing.
func TestShimGetsNonsense(t *testing.T) {
	t.Parallel()
	good, err := shim.Encode(&shim.Spec{Path: "/bin/true", Args: []string{"true"}, Keep: 3})
	if err != nil {
		t.Fatal(err)
	}
	for name, spec := range map[string][]byte{
		"nothing":   nil,
		"a part":    good[:len(good)-1],
		"no header": good[4:],
		"newer":     append([]byte("zdds\x09"), good[5:]...),
		"garbage":   bytes.Repeat([]byte("garbage "), 100),
	} {
		_, report, err := runShim(t, shim.Name, spec)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 127 || report == nil || report.Stage != shim.StageSpec {
			t.Errorf("%s: %v, %+v", name, err, report)
		}
	}
}
