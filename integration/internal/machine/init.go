package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// initEnv makes a process the init of a machine; its value is an encoded plan.
const initEnv = "ZDD_TEST_MACHINE_INIT"

// plan is what init needs to know.
type plan struct {
	Root, Hostname string
	Dir            string // scratch directory, with the notify socket
}

func (p plan) encode() (string, error) {
	b, err := json.Marshal(p)
	return string(b), err
}

// The death signal that Boot asks for belongs to the first thread (prctl(2)), and so is lost if another one calls exec. Locked here,
// before any goroutine can move, the main goroutine stays on the first. Namespaces belong to threads, too.
func init() {
	if os.Getenv(initEnv) != "" {
		runtime.LockOSThread()
	}
}

// Init turns the process into systemd if it was started as the first process of a machine, and then does not return. Otherwise it does
// nothing. It belongs at the top of the TestMain of a test that boots machines.
func Init() {
	text := os.Getenv(initEnv)
	if text == "" {
		return
	}
	var p plan
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.become()
	}
	fmt.Fprintln(os.Stderr, "init:", err)
	os.Exit(1)
}

// become sets the machine up around this process and executes systemd. It returns only on error.
func (p plan) become() error {
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if err := unix.Sethostname([]byte(p.Hostname)); err != nil {
		return os.NewSyscallError("sethostname", err)
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	root, err := p.mount()
	if err != nil {
		return err
	}
	if err := enter(root); err != nil {
		return err
	}
	err = unix.Exec("/lib/systemd/systemd", []string{"/lib/systemd/systemd"}, []string{
		"PATH=" + path,
		"container=lxc",
		"container_uuid=0123456789abcdef0123456789abcdef",
		"NOTIFY_SOCKET=" + notifyPath,
	})
	return fmt.Errorf("exec systemd: %w", err)
}

// path is the search path inside.
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// notifyPath is where systemd in the machine finds the socket for its own notifications.
const notifyPath = "/run/host/notify"

// mount makes the machine's file system and returns its root.
func (p plan) mount() (root string, err error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return "", os.NewSyscallError("mount", err)
	}
	layer := filepath.Join(p.Dir, "layer")
	if err := os.Mkdir(layer, 0o755); err != nil {
		return "", err
	}
	if err := unix.Mount("tmpfs", layer, "tmpfs", 0, "mode=755"); err != nil {
		return "", fmt.Errorf("mount %s: %w", layer, err)
	}
	root = filepath.Join(layer, "root")
	upper, work := filepath.Join(layer, "upper"), filepath.Join(layer, "work")
	for _, dir := range []string{root, upper, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", err
		}
	}
	const quiet = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, m := range []struct {
		kind, on, options string
		flags             uintptr
	}{
		{"overlay", "", "lowerdir=" + p.Root + ",upperdir=" + upper + ",workdir=" + work, 0},
		{"proc", "proc", "", quiet},
		{"sysfs", "sys", "", quiet | unix.MS_RDONLY},
		{"cgroup2", "sys/fs/cgroup", "", quiet},
		{"tmpfs", "dev", "mode=755", unix.MS_NOSUID | unix.MS_STRICTATIME},
		{"tmpfs", "run", "mode=755", unix.MS_NOSUID | unix.MS_NODEV},
		{"tmpfs", "tmp", "mode=1777", unix.MS_NOSUID | unix.MS_NODEV},
	} {
		if err := unix.Mount(m.kind, filepath.Join(root, m.on), m.kind, m.flags, m.options); err != nil {
			return "", fmt.Errorf("mount %s on /%s: %w", m.kind, m.on, err)
		}
	}
	if err := devices(filepath.Join(root, "dev")); err != nil {
		return "", err
	}
	if err := protectSysctl(filepath.Join(root, "proc/sys")); err != nil {
		return "", err
	}
	inside := filepath.Join(root, notifyPath)
	if err := os.Mkdir(filepath.Dir(inside), 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(inside, nil, 0o600); err != nil {
		return "", err
	}
	if err := unix.Mount(filepath.Join(p.Dir, "notify"), inside, "", unix.MS_BIND, ""); err != nil {
		return "", fmt.Errorf("bind the notify socket: %w", err)
	}
	return root, nil
}

// devices fills /dev with what a container has.
func devices(dev string) error {
	for _, d := range []struct {
		name         string
		major, minor uint32
	}{
		{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
	} {
		name := filepath.Join(dev, d.name)
		if err := unix.Mknod(name, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("mknod %s: %w", d.name, err)
		}
		if err := os.Chmod(name, 0o666); err != nil { // whatever the umask
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	for _, m := range []struct{ kind, on, options string }{
		{"devpts", "pts", "newinstance,ptmxmode=0666,mode=620,gid=5"},
		{"tmpfs", "shm", "mode=1777"},
	} {
		on := filepath.Join(dev, m.on)
		if err := os.Mkdir(on, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, on, m.kind, unix.MS_NOSUID|unix.MS_NOEXEC, m.options); err != nil {
			return fmt.Errorf("mount %s on /dev/%s: %w", m.kind, m.on, err)
		}
	}
	return nil
}

// protectSysctl makes all sysctls read-only that are not the network namespace's own: the others are the host's.
func protectSysctl(sys string) error {
	network := filepath.Join(sys, "net")
	for _, dir := range []string{sys, network} {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", dir, err)
		}
	}
	if err := unix.Mount("", sys, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("remount %s: %w", sys, err)
	}
	return nil
}

// enter makes root the root directory and lets go of everything that was mounted before.
func enter(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	// The old root goes on top of the new one, see pivot_root(2), and is then taken off.
	if err := unix.PivotRoot(".", "."); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return os.NewSyscallError("umount", err)
	}
	return os.Chdir("/")
}

// loopbackUp brings up the only network interface that there is.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	return os.NewSyscallError("ioctl", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr))
}
