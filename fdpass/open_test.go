package fdpass

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func names(bound []Bound) string {
	var list []string
	for _, b := range bound {
		list = append(list, b.Spec.Name)
	}
	return strings.Join(list, " ")
}

// refused reports whether nobody listens on the TCP address of a spec.
func refused(t *testing.T, addr string) bool {
	t.Helper()
	c, err := net.DialTimeout("tcp", mustParse(t, addr).Address, deadline)
	if err == nil {
		c.Close()
		return false
	}
	if !errors.Is(err, unix.ECONNREFUSED) {
		t.Fatal(err)
	}
	return true
}

func TestOpenOrder(t *testing.T) {
	t.Parallel()
	all, fresh, err := Open(mustParseAll(t, "b=127.0.0.1:0", "udp://127.0.0.1:0", "a=127.0.0.1:0"), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		defer b.Socket.Close()
	}
	if names(all) != "b udp-127.0.0.1-0 a" || names(fresh) != names(all) {
		t.Errorf("all %q, fresh %q", names(all), names(fresh))
	}
	if all, fresh, err := Open(nil, OpenOptions{}); err != nil || len(all)+len(fresh) != 0 {
		t.Errorf("Open of nothing: %v, %v, %v", all, fresh, err)
	}
}

func TestOpenKeeps(t *testing.T) {
	t.Parallel()
	path := sockPath(t)
	have := mustOpenAll(t, OpenOptions{}, "a=127.0.0.1:0", "b=127.0.0.1:0", "c=127.0.0.1:0", "u=unix://"+path, "old=[::1]:0")
	// b and a change places, c has a new name, u gets other permissions, old goes.
	specs := mustParseAll(t, "new=127.0.0.2:0", "renamed=127.0.0.1:0", "b=127.0.0.1:0", "v=unix://"+path+"?permissions=0600", "a=127.0.0.1:0")
	all, fresh, err := Open(specs, OpenOptions{Have: have})
	if err != nil {
		t.Fatal(err)
	}
	defer all[0].Socket.Close()
	if names(all) != "new renamed b v a" || names(fresh) != "new" {
		t.Errorf("all %q, fresh %q", names(all), names(fresh))
	}
	for i, want := range map[int]Socket{1: have[2].Socket, 2: have[1].Socket, 3: have[3].Socket, 4: have[0].Socket} {
		if all[i].Socket != want {
			t.Errorf("%s has another socket than before", all[i].Spec.Name)
		}
	}
	if all[3].Spec.Permissions != 0o600 {
		t.Error("the new spec is not reported")
	}
	umask, _ := currentUmask()
	checkFile(t, path, 0o777&^umask, os.Geteuid(), os.Getegid()) // untouched before Reconfigure
	if refused(t, have[4].Socket.Addr()) {
		t.Error("the socket that is not wanted any more was closed")
	}
}

func TestOpenAllOrNothing(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	kept := mustOpenAll(t, OpenOptions{}, "kept=127.0.0.1:0")
	free, err := net.Listen("tcp4", "127.0.0.3:0")
	if err != nil {
		t.Fatal(err)
	}
	first := free.Addr().String()
	free.Close()
	path := sockPath(t)
	openErr(t, OpenOptions{Have: kept}, "first="+first, "kept=127.0.0.1:0", "unix://"+path, "bad="+taken.Addr().String())
	if exists(path) {
		t.Error("the file of a socket that was closed again is left")
	}
	if !refused(t, "tcp://"+first) {
		t.Error("a fresh socket was left open")
	}
	if refused(t, kept[0].Socket.Addr()) {
		t.Error("the kept socket was closed")
	}
}

func TestOpenChecksTheSet(t *testing.T) {
	t.Parallel()
	_, _, err := Open(mustParseAll(t, "a=127.0.0.1:0", "a=[::1]:0"), OpenOptions{})
	var set *SetError
	if !errors.As(err, &set) || set.Index != 1 || set.Other != 0 {
		t.Errorf("two of one name: %v", err)
	}
}

func TestOpenNotChangeable(t *testing.T) {
	t.Parallel()
	path := sockPath(t)
	have := mustOpenAll(t, OpenOptions{}, "a=127.0.0.1:0", "b=[::]:0", "u=unix://"+path)
	for spec, want := range map[string]string{
		"a=127.0.0.1:0?freebind":    `socket a: option "freebind" cannot be changed while the socket is open; restart to change it, or give the socket another address`,
		"a=127.0.0.1:0?nonblocking": `socket a: option "nonblocking" cannot be changed while the socket is open; restart to change it, or give the socket another address`,
		"a=127.0.0.1:0?rcvbuf=5000": `socket a: option "rcvbuf" cannot be changed while the socket is open; restart to change it, or give the socket another address`,
		"b=tcp6://:0":               `socket b: option "v6only" cannot be changed while the socket is open; restart to change it, or give the socket another address`,
		"u=unixgram://" + path:      "socket u: the address unixgram://" + path + ", now unix://" + path + ", cannot be changed while the socket is open; restart to change it, or give the socket another address",
	} {
		fresh := "fresh=127.0.0.1:0"
		oe := openErr(t, OpenOptions{Have: have}, fresh, spec)
		if oe.Error() != want || !errors.Is(oe, ErrNotChangeable) {
			t.Errorf("%s:\ngot  %v\nwant %s", spec, oe, want)
		}
	}
}

// TestOpenOverlap widens an address in a reload, which the kernel does not do
// while the narrow one is open.
func TestOpenOverlap(t *testing.T) {
	t.Parallel()
	have := mustOpenAll(t, OpenOptions{}, "a=127.0.0.1:0")
	addr := have[0].Socket.Addr()
	port := addr[strings.LastIndexByte(addr, ':'):]
	oe := openErr(t, OpenOptions{Have: have}, "a=tcp://"+port)
	want := "socket a: tcp://" + port + " overlaps " + addr + `, which this supervisor has open as "a" (address already in use); an address cannot grow or shrink in a reload: restart, or reload once without it`
	if oe.Error() != want || !errors.Is(oe, unix.EADDRINUSE) {
		t.Errorf("got  %v\nwant %s", oe, want)
	}
}

// passed makes sockets as systemd would pass them in, by name.
func passed(t *testing.T, texts ...string) (map[string][]*FD, []*FD) {
	t.Helper()
	byName := make(map[string][]*FD)
	var order []*FD
	for i, text := range texts {
		name, _, _ := strings.Cut(text, "=")
		spec := mustParse(t, text)
		spec.Name = "" // the names may repeat
		var fd *FD
		var err error
		// The path stays: systemd's sockets are not ours to clean up.
		if spec.local() {
			fd, _, err = spec.openUnix((&logBuffer{}).logger())
		} else if fd, err = spec.bindInet((&logBuffer{}).logger()); err == nil {
			err = spec.listen(fd.Raw())
		}
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		t.Cleanup(func() { fd.Close() })
		byName[name] = append(byName[name], fd)
		order = append(order, fd)
	}
	return byName, order
}

func sameSocket(t *testing.T, s Socket, fd *FD) bool {
	t.Helper()
	want, err := cookie(fd.Raw())
	if err != nil {
		t.Fatal(err)
	}
	got, err := cookie(join(t, s).Raw())
	return err == nil && got == want
}

func TestSystemd(t *testing.T) {
	t.Parallel()
	path := sockPath(t)
	byName, order := passed(t, "web=127.0.0.1:0", "web=[::1]:0", "log=unixgram://"+path, "dns=udp://127.0.0.1:0", "unused=127.0.0.1:0")
	o := OpenOptions{FromSystemd: byName}
	all := mustOpenAll(t, o, "log=systemd:log", "a=systemd:web", "b=systemd:web", "systemd:dns", "own=127.0.0.1:0")
	if names(all) != "log a b dns own" {
		t.Errorf("names %q", names(all))
	}
	for i, want := range []*FD{order[2], order[0], order[1], order[3]} {
		if !sameSocket(t, all[i].Socket, want) {
			t.Errorf("%s is not the socket that was passed", all[i].Spec.Name)
		}
		e, err := inspect(want.Raw())
		if err != nil || all[i].Socket.Addr() != e.addr() {
			t.Errorf("%s: Addr = %s, want %s", all[i].Spec.Name, all[i].Socket.Addr(), e.addr())
		}
	}
	if all[0].Socket.Addr() != "unixgram://"+path {
		t.Errorf("Addr = %s", all[0].Socket.Addr())
	}
	// Over a reload each name keeps its socket, and a new one gets what is left.
	o.Have = all[:2]
	again, fresh, err := Open(mustParseAll(t, "new=systemd:web", "a=systemd:web"), o)
	if err != nil {
		t.Fatal(err)
	}
	if names(fresh) != "new" || again[1].Socket != all[1].Socket || !sameSocket(t, again[0].Socket, order[1]) {
		t.Errorf("after a reload: fresh %q", names(fresh))
	}
	again[0].Socket.Close()
	// Neither way to end one touches what systemd has.
	if err := all[0].Socket.Close(); err != nil || !exists(path) {
		t.Errorf("Close: %v, file left: %v", err, exists(path))
	}
	addr := all[1].Socket.Addr()
	client := dialText(t, addr)
	if err := all[1].Socket.Retire(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := all[1].Socket.Stats(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Retire: %v", err)
	}
	echo(t, client, accept(t, order[0]), "waited")
	echo(t, dialText(t, addr), accept(t, order[0]), "new")
	for _, fd := range order {
		if fd.Raw() < 0 {
			t.Error("a descriptor of systemd's was closed")
		}
	}
}

func TestSystemdErrors(t *testing.T) {
	t.Parallel()
	byName, _ := passed(t, "web=127.0.0.1:0", "log=unixgram:"+abstract(t))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	netlink, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string]int{"conn": pair[0], "peer": pair[1], "netlink": netlink} {
		fd := NewFD(raw)
		defer fd.Close()
		byName[name] = []*FD{fd}
	}
	conn, err := r.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Control(func(raw uintptr) {
		dup, err := unix.FcntlInt(raw, unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			t.Error(err)
		}
		byName["fifo"] = []*FD{NewFD(dup)}
	}); err != nil {
		t.Fatal(err)
	}
	defer byName["fifo"][0].Close()
	const check = "; check FileDescriptorName= and Service= of the .socket unit"
	tests := []struct {
		specs string
		o     OpenOptions
		want  string
		err   error
	}{
		{"a=systemd:http", OpenOptions{}, `socket a: systemd passed no socket named "http"` + check, ErrNotPassed},
		{"a=systemd:http", OpenOptions{FromSystemd: byName}, `socket a: systemd passed no socket named "http", only conn, fifo, log, netlink, peer, web` + check, ErrNotPassed},
		{"b=systemd:web a=systemd:web", OpenOptions{FromSystemd: byName}, `socket a: systemd passed only 1 named "web"` + check, ErrNotPassed},
		{"a=systemd:fifo", OpenOptions{FromSystemd: byName}, `socket a: the descriptor that systemd passed as "fifo" cannot be used: getsockopt SO_DOMAIN: socket operation on non-socket`, unix.ENOTSOCK},
		{"a=systemd:conn", OpenOptions{FromSystemd: byName}, `socket a: the descriptor that systemd passed as "conn" cannot be used: it does not listen; a .socket unit with Accept=yes passes in single connections`, nil},
		{"a=systemd:netlink", OpenOptions{FromSystemd: byName}, `socket a: the descriptor that systemd passed as "netlink" cannot be used: it is neither a tcp, a udp nor a unix socket (family 16, type 3, protocol 0)`, nil},
	}
	for _, test := range tests {
		oe := openErr(t, test.o, strings.Fields(test.specs)...)
		if oe.Error() != test.want || test.err != nil && !errors.Is(oe, test.err) {
			t.Errorf("%s:\ngot  %v\nwant %s", test.specs, oe, test.want)
		}
	}
}
