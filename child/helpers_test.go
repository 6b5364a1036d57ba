package child_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// patience is how long anything may take on the slowest of machines.
const patience = 30 * time.Second

func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// waitFor waits until ok, looking again and again.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

func waitDone(t testing.TB, p *child.Process) child.Exit {
	t.Helper()
	select {
	case <-p.Done():
		return p.Exit()
	case <-time.After(patience):
		t.Fatalf("%v has not ended", p)
		panic("unreachable")
	}
}

// helper is a command that is this binary as one of the helpers.
func helper(name string, env ...string) child.Command {
	return child.Command{Path: "/proc/self/exe", Args: []string{name}, Env: append(env, helperVar+"="+name)}
}

// helpers are what this binary can be besides a test. A panic makes it fail.
var helpers = map[string]func(){
	"spoil-signals":   spoilSignals,
	"start-from-bad":  startFromBad,
	"init":            asInit,
	"limit-of-child":  limitOfChild,
	"become":          become,
	"ack":             ack,
	"end-main-thread": endMainThread,
	"binder":          binder,
}

// spoilSignals ignores and blocks all signals and goes on as start-from-bad.
func spoilSignals() {
	runtime.LockOSThread()
	// A struct sigaction with SIG_IGN and nothing else.
	action := [64]byte{0: 1}
	if runtime.GOARCH == "mips" || runtime.GOARCH == "mips64" {
		panic("the layout differs")
	}
	for sig := uintptr(1); sig <= 64; sig++ {
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
	mask := ^uint64(0)
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&mask)), 0, 8, 0, 0)
	panic(syscall.Exec("/proc/self/exe", []string{"start-from-bad"}, []string{helperVar + "=start-from-bad"}))
}

// startFromBad starts a program that shows its signals, and then shows its own.
func startFromBad() {
	r, err := child.NewReaper(child.ReaperOptions{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	exit, err := r.Run(ctx, child.Command{Path: "/bin/cat", Args: []string{"cat", "/proc/self/status"}})
	if err != nil || !exit.Success() {
		panic(errors.Join(err, errors.New(exit.String())))
	}
	fmt.Println("---")
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(b)
	r.Close()
}

// ack says some things to einhorn's command socket, each on a connection of its own, the last of them as einhorn's workers do, and stays.
func ack() {
	for _, line := range os.Args[1:] {
		conn, err := net.Dial("unix", os.Getenv("EINHORN_SOCK_PATH"))
		if err != nil {
			panic(err)
		}
		defer conn.Close() // which many do not do before they end
		fmt.Fprint(conn, line)
	}
	time.Sleep(time.Hour)
}

// become starts a program as the user that we are, as root, and with a limit that
// only root could set.
func become() {
	r, err := child.NewReaper(child.ReaperOptions{})
	if err != nil {
		panic(err)
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	self := &child.Credential{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Groups: []uint32{54323}}
	if _, err := r.Run(ctx, child.Command{
		Path:       "/bin/sh",
		Args:       []string{"sh", "-c", "echo $(id -u) $(id -g) $(id -G)"},
		Env:        []string{"PATH=/usr/bin:/bin"},
		Credential: self,
	}); err != nil {
		panic(err)
	}
	_, err = r.Run(ctx, child.Command{Path: "/bin/true", Credential: &child.Credential{}})
	fmt.Println(err)
	all := uint64(unix.RLIM_INFINITY)
	_, err = r.Run(ctx, child.Command{Path: "/bin/true", Limits: []child.Limit{{Resource: unix.RLIMIT_NOFILE, Cur: all, Max: all}}})
	fmt.Println(err)
}

// asInit is process 1 and shows the pid that a child sees, its LISTEN_PID, and how
// many orphans were waited for.
func asInit() {
	if os.Getpid() != 1 {
		panic("not process 1")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		panic(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		panic(err)
	}
	r, err := child.NewReaper(child.ReaperOptions{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	c := sh("echo $$ $LISTEN_PID; " + quietDaemon + "; " + quietDaemon + "; exec sleep 1000")
	c.Sockets = []child.NamedFD{{Name: "a", FD: fdpass.NewFD(null)}}
	c.Notify = "/run/test/init"
	p, err := r.Start(ctx, c)
	if err != nil {
		panic(err)
	}
	// The shells in between are children of the main process.
	await(ctx, func() bool {
		pids, err := p.Tree().Members()
		if err != nil {
			panic(err)
		}
		for _, pid := range pids {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if field(string(b), "PPid") != "1" {
				return false
			}
		}
		return len(pids) == 3
	})
	if err := p.Tree().Kill(ctx); err != nil {
		panic(err)
	}
	await(ctx, func() bool { return r.Strays() >= 2 })
	fmt.Println(r.Strays())
}

// await is waitFor for helpers.
func await(ctx context.Context, ok func() bool) {
	for !ok() {
		if ctx.Err() != nil {
			panic(ctx.Err())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// quietDaemon is a shell command that makes a daemon.
const quietDaemon = "(setsid sleep 1000 > /dev/null 2>&1 &)"

// limitOfChild shows its own limit of open files and that of a child.
func limitOfChild() {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		panic(err)
	}
	fmt.Println("own", l.Cur)
	r, err := child.NewReaper(child.ReaperOptions{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := r.Run(ctx, sh("ulimit -Sn")); err != nil {
		panic(err)
	}
	r.Close()
}

// endMainThread ends the first thread while others go on, which makes the process
// look like a zombie.
func endMainThread() {
	go func() {
		for {
			time.Sleep(time.Hour)
		}
	}()
	// main runs on the first thread, and this locks it there.
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		panic("not on the first thread")
	}
	fmt.Println("ending")
	syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
}

// seccomp installs a filter on all threads, see seccomp(2).
func seccomp(filter *unix.SockFprog) error {
	_, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(filter)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}
