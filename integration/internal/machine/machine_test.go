package machine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/machine"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
)

// bootEnv makes the test binary boot a machine from the root file system that it names, say where, and wait to be killed.
const bootEnv = "ZDD_TEST_MACHINE_BOOT"

func TestMain(m *testing.M) {
	machine.Init()
	if root := os.Getenv(bootEnv); root != "" {
		m, err := machine.Boot(context.Background(), machine.Options{Root: root})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(m.Pid(), m.Cgroup(), m.Scratch())
		<-m.Done()
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// root holds a root file system for the test, or skips it.
func root(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("booting systemd needs root")
	}
	r, err := rootfs.Forky().Use(rootfs.Cache())
	if errors.Is(err, rootfs.ErrNotBuilt) {
		t.Skipf("%v: run integration/test.sh as root, it builds it", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r.Dir
}

func boot(t *testing.T) *machine.Machine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m, err := machine.Boot(ctx, machine.Options{Root: root(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Kill(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func must(t *testing.T, m *machine.Machine, argv ...string) string {
	t.Helper()
	out, err := m.Output(t.Context(), argv...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// gone fails the test if a directory is there or a mount names it.
func gone(t *testing.T, dirs ...string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s was left", dir)
		}
		if strings.Contains(string(mounts), dir) {
			t.Errorf("a mount on %s was left:\n%s", dir, mounts)
		}
	}
}

// TestNothingIsLeft ends machines in order and by force, while processes and mounts are in them that no unit knows.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*machine.Machine, context.Context) error{
		"stop": (*machine.Machine).Stop,
		"kill": func(m *machine.Machine, _ context.Context) error { return m.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := boot(t)
			must(t, m, "sh", "-c", "setsid sleep infinity >/dev/null 2>&1 & mount -t tmpfs tmpfs /mnt")
			processes, err := m.Processes()
			if err != nil {
				t.Fatal(err)
			}
			if len(processes) < 3 || processes[0].Pid != 1 || processes[0].Cgroup != "/init.scope" {
				t.Errorf("processes of a running machine: %+v", processes)
			}
			// A descriptor, unlike a number, cannot be another process by the time it is looked at.
			pidfd, err := unix.PidfdOpen(m.Pid(), 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(pidfd)
			scratch, cgroup := m.Scratch(), m.Cgroup()

			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := end(m, ctx); err != nil {
				t.Fatal(err)
			}
			if err := unix.PidfdSendSignal(pidfd, 0, nil, 0); err != unix.ESRCH {
				t.Errorf("init of a machine that has ended: %v", err)
			}
			gone(t, scratch, cgroup)
		})
	}
}

// TestDiesWithItsStarter kills a process that has booted a machine. Directories are left then, for nobody is there to remove them,
// but no process.
func TestDiesWithItsStarter(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), bootEnv+"="+root(t))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var cgroup, scratch string
	_, err = fmt.Fscan(stdout, &pid, &cgroup, &scratch)
	if err != nil {
		_ = cmd.Process.Kill()
		t.Fatal(errors.Join(err, cmd.Wait()))
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Error(err)
	}
	defer unix.Close(pidfd)
	_ = cmd.Process.Kill()
	_, _ = io.Copy(io.Discard, stdout)
	_ = cmd.Wait()

	// A pidfd is readable once its process has ended. It is nobody's child but the host's init's, which may take its time to reap it.
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 30_000)
	if n != 1 || err != nil {
		t.Fatalf("the machine lives on without the process that booted it: %v", err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if err = machine.RemoveCgroup(cgroup); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err := errors.Join(err, os.RemoveAll(scratch)); err != nil {
		t.Error(err)
	}
	gone(t, scratch, cgroup)
}

// TestFiles shows that files and links mean inside what they mean there.
func TestFiles(t *testing.T) {
	t.Parallel()
	m := boot(t)
	write := func(path, content string) {
		t.Helper()
		if err := m.WriteFile(t.Context(), path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	must(t, m, "ln", "-s", "/srv/there", "/srv/link")
	write("/srv/there/file", "one")
	write("/srv/link/file", "two")
	if got := must(t, m, "cat", "/srv/there/file"); got != "two" {
		t.Errorf("through a link, %q was written", got)
	}
	must(t, m, "sh", "-c", "echo three >/srv/there/file")
	if got, err := m.ReadFile("/srv/link/file"); string(got) != "three\n" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if got, err := os.ReadFile(m.HostPath("/srv/there/file")); string(got) != "three\n" || err != nil {
		t.Errorf("read from the host %q, %v", got, err)
	}
	if _, err := os.Stat("/srv/there"); err == nil {
		t.Error("the file was written into the host")
	}
	if err := m.CopyFile(t.Context(), "/proc/self/exe", "/usr/local/bin/tool", 0o755); err != nil {
		t.Fatal(err)
	}
	if got := must(t, m, "stat", "--format=%a", "/usr/local/bin/tool"); got != "755" {
		t.Errorf("mode of an installed program is %s", got)
	}
}

// TestRun shows what a command's end looks like.
func TestRun(t *testing.T) {
	t.Parallel()
	m := boot(t)
	r, err := m.Run(t.Context(), "sh", "-c", "echo out; echo err >&2; exit 7")
	if err != nil || r != (machine.Result{Stdout: "out\n", Stderr: "err\n", Status: 7}) {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := m.Output(t.Context(), "false"); err == nil {
		t.Error("a command that fails is no error of Output")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := m.Run(ctx, "sleep", "infinity"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command that was cut off: %v", err)
	}
	out, err := m.NetworkCommand(t.Context(), "ip", "-brief", "link").Output()
	if err != nil || len(strings.Split(strings.TrimSpace(string(out)), "\n")) != 1 {
		t.Errorf("the machine's network has more than lo: %s, %v", out, err)
	}
}

// TestBootFails shows that a root file system without systemd is an error that says so, and leaves nothing.
func TestBootFails(t *testing.T) {
	t.Parallel()
	root(t)
	empty := t.TempDir()
	for _, dir := range []string{"proc", "sys", "dev", "run", "tmp"} {
		if err := os.Mkdir(empty+"/"+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m, err := machine.Boot(t.Context(), machine.Options{Root: empty})
	if err == nil {
		_ = m.Kill()
		t.Fatal("an empty directory was booted")
	}
	if !strings.Contains(err.Error(), "exec systemd") {
		t.Errorf("the error does not say what failed: %v", err)
	}
}
