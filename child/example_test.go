package child_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// A generation from its start to its end.
func Example() {
	reaper, err := child.NewReaper(child.ReaperOptions{OwnChildrenOnly: true}) // a supervisor leaves the options out
	if err != nil {
		fmt.Println(err)
		return
	}
	defer reaper.Close()

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer listener.Close()
	socket, err := duplicate(listener.(*net.TCPListener))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer socket.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	command := child.Command{
		Path: "/bin/sh",
		Args: []string{"sh", "-c", `
			if [ "$LISTEN_PID" = $$ ] && [ "$LISTEN_FDNAMES" = http ]; then echo >&4; fi
			exec sleep 60`},
		Env:     child.CleanEnv(os.Environ()),
		Sockets: []child.NamedFD{{Name: "http", FD: socket}},
	}

	var ready child.FDReady
	if err := ready.Prepare(&command); err != nil {
		fmt.Println(err)
		return
	}
	defer ready.Close()
	fmt.Println("its ready descriptor is", ready.Number())

	process, err := reaper.Start(ctx, command)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer process.Close()
	if err := ready.Wait(ctx, process); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ready")

	if err := process.Signal(unix.SIGTERM); err != nil {
		fmt.Println(err)
		return
	}
	select {
	case <-process.Done():
		fmt.Println(process.Exit())
	case <-ctx.Done():
		fmt.Println("it ignores SIGTERM")
	}
	if err := process.Tree().Kill(ctx); err != nil { // whoever it has left behind
		fmt.Println(err)
	}

	_, err = reaper.Start(ctx, child.Command{Path: "/srv/x/bin/svc"})
	fmt.Println(err)
	// Output:
	// its ready descriptor is 4
	// ready
	// killed by SIGTERM
	// cannot start /srv/x/bin/svc: no such file or directory
}

// duplicate does what package fdpass does for its sockets.
func duplicate(conn syscall.Conn) (*fdpass.FD, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	dup := -1
	var dupErr error
	if err := raw.Control(func(fd uintptr) {
		dup, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3)
	}); err != nil {
		return nil, err
	}
	return fdpass.NewFD(dup), dupErr
}
