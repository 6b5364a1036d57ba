package fdpass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// helpers are what the test binary does instead of running tests, by name. Each
// prints what the test is to look at.
func helpers() map[string]func(args []string) {
	return map[string]func([]string){
		"open":      helperOpen,
		"stats":     helperStats,
		"no-ipv6":   helperNoIPv6,
		"few-files": helperFewFiles,
		"no-diag":   helperNoDiag,
		"no-steer":  helperNoSteer,
		"no-turn":   helperNoTurn,
	}
}

// openPrinting opens one spec and prints its error or its address.
func openPrinting(text string) {
	s, err := ParseSpec(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	all, _, err := Open([]Spec{s}, OpenOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(all[0].Socket.Addr())
	all[0].Socket.Close()
}

func helperOpen(args []string) { openPrinting(args[0]) }

// helperStats prints the queue of a listening unix socket with one connection.
func helperStats(args []string) {
	s, err := ParseSpec(args[0])
	if err != nil {
		panic(err)
	}
	all, _, err := Open([]Spec{s}, OpenOptions{})
	if err != nil {
		panic(err)
	}
	defer all[0].Socket.Close()
	client, err := s.newSocket(unix.AF_UNIX)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	if err := unix.Connect(client.Raw(), &unix.SockaddrUnix{Name: s.Address}); err != nil {
		panic(err)
	}
	st, err := all[0].Socket.Stats()
	fmt.Println(os.Geteuid(), st.Queue, st.QueueLimit, err)
}

// helperNoIPv6 opens a spec where socket(2) fails for IPv6 as in a kernel
// without it.
func helperNoIPv6(args []string) {
	forbid(unix.SYS_SOCKET, 0, unix.AF_INET6, unix.EAFNOSUPPORT)
	openPrinting(args[0])
}

// helperNoDiag settles a socket, with and without a connection in its queue, in a
// process that may not ask for connections.
func helperNoDiag([]string) {
	forbid(unix.SYS_SOCKET, 2, unix.NETLINK_SOCK_DIAG, unix.EACCES)
	all, _, err := Open([]Spec{{Network: TCP, Address: "127.0.0.1:0"}}, OpenOptions{})
	if err != nil {
		panic(err)
	}
	s := all[0].Socket
	defer s.Close()
	old, err := s.Join(1, 0)
	if err != nil {
		panic(err)
	}
	_, address, _ := strings.Cut(s.Addr(), "://")
	client, err := net.Dial("tcp", address)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	if _, err := s.Join(2, 0); err != nil {
		panic(err)
	}
	if err := s.Cutover(2); err != nil {
		panic(err)
	}
	open, err := Settle(context.Background(), all, 1, 50*time.Millisecond)
	fmt.Println("waits:", open, err)
	if _, _, err := unix.Accept4(old.Raw(), unix.SOCK_CLOEXEC); err != nil {
		panic(err)
	}
	open, err = Settle(context.Background(), all, 1, time.Hour)
	fmt.Println("quiet:", open, err)
}

// helperNoSteer opens a spec where the kernel refuses the program, with the given
// errno, and prints what came of it and what the log says.
func helperNoSteer(args []string) {
	errno, err := strconv.Atoi(args[0])
	if err != nil {
		panic(err)
	}
	forbid(unix.SYS_SETSOCKOPT, 2, unix.SO_ATTACH_REUSEPORT_CBPF, unix.Errno(errno))
	spec, err := ParseSpec(args[1])
	if err != nil {
		panic(err)
	}
	drop := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: drop}))
	all, _, err := Open([]Spec{spec}, OpenOptions{Log: log})
	if err != nil {
		panic(err)
	}
	s := all[0].Socket
	defer s.Close()
	reuse, err := unix.GetsockoptInt(s.(*shared).fd.Raw(), unix.SOL_SOCKET, unix.SO_REUSEPORT)
	_, dialErr := s.Dial(context.Background(), 1)
	fmt.Println(s.Mode(), reuse, err, dialErr)
}

// helperNoTurn has the kernel refuse to turn a socket that is steered already.
func helperNoTurn([]string) {
	all, _, err := Open([]Spec{{Network: TCP, Address: "127.0.0.1:0"}}, OpenOptions{})
	if err != nil {
		panic(err)
	}
	s := all[0].Socket
	defer s.Close()
	for gen := 1; gen <= 2; gen++ {
		if _, err := s.Join(gen, 0); err != nil {
			panic(err)
		}
	}
	forbid(unix.SYS_SETSOCKOPT, 2, unix.SO_ATTACH_REUSEPORT_CBPF, unix.ENOMEM)
	for range 2 {
		fmt.Println(s.Cutover(2))
		fmt.Println(s.Share(2, 0.5))
	}
	fmt.Println(s.Leave(1))
	_, err = s.Dial(context.Background(), 2)
	fmt.Println(errors.Is(err, unix.ENOMEM))
	fmt.Println(s.Seats())
}

// forbid makes a system call of this process fail for good where the argument with
// that index, counted from 0, has the value.
func forbid(call uint32, argument int, value uint32, errno unix.Errno) {
	const dataNr, dataArgs = 0, 16 // of struct seccomp_data, on little-endian machines
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: dataNr},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: 0, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(dataArgs + 8*argument)},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	if err := installSeccomp(filter); err != nil {
		panic(err)
	}
}

// helperFewFiles opens a spec where no descriptor is left.
func helperFewFiles(args []string) {
	var files []*os.File
	limit := unix.Rlimit{Cur: 16, Max: 16}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		panic(err)
	}
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		files = append(files, f)
	}
	openPrinting(args[0])
	for _, f := range files {
		f.Close()
	}
}
