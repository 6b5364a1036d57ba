package fdpass

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestExclusive opens an address a second time, which fails in every mode, also
// once the first socket lets its own generations join it.
func TestExclusive(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"tcp://127.0.0.1:0", "tcp://[::1]:0", "tcp://:0", "tcp6://:0", "tcp4://:0"} {
		s := mustSteer(t, spec)
		serve(t, s, 1, 0)
		serve(t, s, 2, 0)
		for _, mode := range []Mode{Steered, Shared} {
			oe := openErr(t, OpenOptions{}, "b="+s.Addr()+"?mode="+string(mode))
			want := fmt.Sprintf("socket b: %s is in use by another process (address already in use); stop it or choose another port", s.Addr())
			if oe.Error() != want || !errors.Is(oe, unix.EADDRINUSE) {
				t.Errorf("got  %v\nwant %s", oe, want)
			}
		}
		for _, address := range addressesOf(s) {
			expectFrom(t, address, 20, 1)
		}
	}
}

// TestExclusiveReusePort opens an address that somebody else of the same user has
// with SO_REUSEPORT, which is an invitation.
func TestExclusiveReusePort(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		_, order := passed(t, "web="+host+"?reuseport")
		e, err := inspect(order[0].Raw())
		must(t, err)
		if oe := openErr(t, OpenOptions{}, "a="+e.addr()); !errors.Is(oe, unix.EADDRINUSE) {
			t.Errorf("%s: %v", e.addr(), oe)
		}
		mustOpen(t, e.addr()+"?reuseport")
	}
}

// TestExclusiveAtOnce has two supervisors open one address at the same time, with
// every step of the one between two of the other: one of them fails.
func TestExclusiveAtOnce(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	for order := range 1 << 6 {
		s := mustParse(t, "tcp://127.0.0.1:0")
		first, err := s.bindInet(log)
		must(t, err)
		sa, err := unix.Getsockname(first.Raw())
		must(t, err)
		address := netip.MustParseAddrPort(addressOf(sa))
		second, err := s.bind(target{address, false}, log)
		if err != nil {
			t.Fatalf("not even both can bind: %v", err)
		}
		steps := func(fd *FD) []func() error {
			return []func() error{func() error { return found(fd.Raw()) }, func() error { return s.listen(fd.Raw()) }}
		}
		left := [2][]func() error{steps(first), steps(second)}
		failed := 0
		for i := range 6 {
			who := order >> i & 1
			if len(left[who]) == 0 {
				who = 1 - who
			}
			if len(left[who]) == 0 {
				break
			}
			step := left[who][0]
			left[who] = left[who][1:]
			if err := step(); errors.Is(err, unix.EADDRINUSE) {
				failed++
			} else if err != nil {
				t.Error(err)
			}
		}
		if failed != 1 {
			t.Errorf("order %b: %d of two fail", order, failed)
		}
		must(t, first.Close(), second.Close())
	}
}

// TestFallback opens sockets where the kernel refuses the program: they are shared
// and exclusive, and the log has one line about it.
func TestFallback(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EOPNOTSUPP, unix.EPERM, unix.ENOPROTOOPT} {
		for _, spec := range []string{"a=tcp://127.0.0.1:0", "a=tcp://:0?mode=steered"} {
			got := strings.Split(runHelper(t, false, "no-steer", fmt.Sprint(int(errno)), spec), "\n")
			line := fmt.Sprintf(`level=WARN msg="the socket cannot be steered, and is shared by the generations instead: a service may lose connections that it has accepted when it is told to stop" socket=a cause="setsockopt SO_ATTACH_REUSEPORT_CBPF: %s"`, errno.Error())
			rest := fmt.Sprintf("shared 0 <nil> %v", ErrNotSteered)
			if len(got) != 2 || got[0] != line || got[1] != rest {
				t.Errorf("%s with %v: got\n%s\nwant\n%s\n%s", spec, errno, strings.Join(got, "\n"), line, rest)
			}
		}
	}
	want := fmt.Sprintf("shared 0 <nil> %v", ErrNotSteered)
	if got := runHelper(t, false, "no-steer", fmt.Sprint(int(unix.EPERM)), "a=tcp://127.0.0.1:0?mode=shared"); got != want {
		t.Errorf("a socket that is to be shared: got\n%s\nwant\n%s", got, want)
	}
}

// TestTurnRefused has the kernel refuse every change of where connections go: all
// stays as it is, and is not taken for done.
func TestTurnRefused(t *testing.T) {
	refused := "setsockopt SO_ATTACH_REUSEPORT_CBPF: cannot allocate memory\n"
	want := strings.Repeat(refused, 5) + "true\n[{1 1 0} {2 0 0}] <nil>"
	if got := runHelper(t, false, "no-turn"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
