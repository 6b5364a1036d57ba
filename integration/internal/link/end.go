package link

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// newEnd makes a namespace with one end of the wire, which is a tun interface whose other side is ours.
func newEnd(address string) (*End, error) {
	type made struct {
		end *End
		err error
	}
	result := make(chan made)
	go func() {
		// The thread is left in the namespace, and so must not be used for anything else: it ends with this goroutine.
		runtime.LockOSThread()
		end, err := makeEnd(address)
		result <- made{end, err}
	}()
	r := <-result
	return r.end, r.err
}

// makeEnd does so on a thread of its own.
func makeEnd(address string) (_ *End, err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, os.NewSyscallError("unshare", err)
	}
	namespace, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			namespace.Close()
		}
	}()
	const name = "wire"
	wire, err := openTun(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			wire.Close()
		}
	}()
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", address + "/24", "dev", name},
		{"link", "set", name, "up"},
	} {
		// A child is born in the namespace of the thread that starts it.
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	return &End{Address: address, namespace: namespace, wire: wire}, nil
}

// openTun makes an interface whose packets are read from and written to the file, see the kernel's tuntap documentation.
func openTun(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/net/tun", Err: err}
	}
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("ioctl TUNSETIFF", err)
	}
	return os.NewFile(uintptr(fd), name), nil // only now can the runtime poll it
}
