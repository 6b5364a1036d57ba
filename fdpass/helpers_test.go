package fdpass

import (
	"fmt"
	"os"

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
	const dataNr, dataArg0 = 0, 16 // of struct seccomp_data, on little-endian machines
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: dataNr},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_SOCKET, Jt: 0, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: dataArg0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.AF_INET6, Jt: 0, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	if err := installSeccomp(filter); err != nil {
		panic(err)
	}
	openPrinting(args[0])
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
