package systemd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// result is what inheritedHelper prints.
type result struct {
	Read  map[string][]string // what the pipe behind each descriptor says
	Env   []string            // LISTEN_* that are left
	Wrong bool                // ErrInherited
	Open  []bool              // which of the descriptors 3, 4, ... are open afterwards
}

// inheritedHelper is a process that was passed descriptors. OWN in LISTEN_PID
// and LISTEN_PIDFDID stands for its own, which only it can know.
func inheritedHelper() error {
	if os.Getenv("LISTEN_PID") == "OWN" {
		os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
	}
	if os.Getenv("LISTEN_PIDFDID") == "OWN" {
		os.Setenv("LISTEN_PIDFDID", strconv.FormatUint(pidfdInode(), 10))
	}
	got, err := Inherited()
	res := result{Wrong: errors.Is(err, ErrInherited)}
	if err != nil && !res.Wrong {
		return err
	}
	for name, fds := range got {
		for _, fd := range fds {
			flags, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_GETFD, 0)
			if err != nil || flags&unix.FD_CLOEXEC == 0 {
				return fmt.Errorf("%s is not close-on-exec: %#x, %v", fd, flags, err)
			}
			buf := make([]byte, 10)
			n, err := unix.Read(fd.Raw(), buf)
			if err != nil {
				return err
			}
			if res.Read == nil {
				res.Read = make(map[string][]string)
			}
			res.Read[name] = append(res.Read[name], string(buf[:n]))
		}
	}
	for _, entry := range os.Environ() {
		if strings.HasPrefix(entry, "LISTEN_") {
			res.Env = append(res.Env, entry)
		}
	}
	for fd := range 3 {
		_, err := unix.FcntlInt(uintptr(3+fd), unix.F_GETFD, 0)
		res.Open = append(res.Open, err == nil)
	}
	if again, err := Inherited(); again != nil || err != nil {
		return fmt.Errorf("second call: %v, %v", again, err)
	}
	return json.NewEncoder(os.Stdout).Encode(res)
}

func TestInherited(t *testing.T) {
	t.Parallel()
	allOpen, allClosed := []bool{true, true, true}, []bool{false, false, false}
	untouched := result{Open: allOpen}
	for name, tt := range map[string]struct {
		env  string // separated by spaces
		want result
	}{
		"by name": {
			env:  "LISTEN_PID=OWN LISTEN_FDS=3 LISTEN_FDNAMES=http:admin:http",
			want: result{Read: map[string][]string{"http": {"0", "2"}, "admin": {"1"}}, Open: allOpen},
		},
		"without names": {
			env:  "LISTEN_PID=OWN LISTEN_FDS=3",
			want: result{Read: map[string][]string{"unknown": {"0", "1", "2"}}, Open: allOpen},
		},
		"some are empty": {
			env:  "LISTEN_PID=OWN LISTEN_FDS=3 LISTEN_FDNAMES=a::c",
			want: result{Read: map[string][]string{"a": {"0"}, "": {"1"}, "c": {"2"}}, Open: allOpen},
		},
		"own pidfd": {
			env:  "LISTEN_PID=OWN LISTEN_PIDFDID=OWN LISTEN_FDS=3 LISTEN_FDNAMES=a:b:c",
			want: result{Read: map[string][]string{"a": {"0"}, "b": {"1"}, "c": {"2"}}, Open: allOpen},
		},
		"other variables stay": {
			env:  "LISTEN_ADDR=:80 LISTEN_PID=1 LISTEN_FDS=3",
			want: result{Env: []string{"LISTEN_ADDR=:80"}, Open: allOpen},
		},
		"other process":   {env: "LISTEN_PID=1 LISTEN_FDS=3 LISTEN_FDNAMES=a:b:c", want: untouched},
		"other pidfd":     {env: "LISTEN_PID=OWN LISTEN_PIDFDID=5 LISTEN_FDS=3", want: untouched},
		"no process":      {env: "LISTEN_FDS=3 LISTEN_FDNAMES=a:b:c", want: untouched},
		"no count":        {env: "LISTEN_PID=OWN", want: untouched},
		"none":            {env: "LISTEN_PID=OWN LISTEN_FDS=0", want: untouched},
		"nothing":         {env: "", want: untouched},
		"negative count":  {env: "LISTEN_PID=OWN LISTEN_FDS=-1", want: result{Wrong: true, Open: allOpen}},
		"no number":       {env: "LISTEN_PID=OWN LISTEN_FDS=x", want: result{Wrong: true, Open: allOpen}},
		"too few names":   {env: "LISTEN_PID=OWN LISTEN_FDS=3 LISTEN_FDNAMES=a:b", want: result{Wrong: true, Open: allClosed}},
		"too many names":  {env: "LISTEN_PID=OWN LISTEN_FDS=3 LISTEN_FDNAMES=a:b:c:d", want: result{Wrong: true, Open: allClosed}},
		"empty names":     {env: "LISTEN_PID=OWN LISTEN_FDS=3 LISTEN_FDNAMES=", want: result{Wrong: true, Open: allClosed}},
		"more than there": {env: "LISTEN_PID=OWN LISTEN_FDS=2147483647", want: result{Wrong: true, Open: allClosed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := helperCommand(t, "inherited", strings.Fields(tt.env)...)
			for i := range 3 {
				r, w := pipe(t)
				fmt.Fprint(w, i)
				cmd.ExtraFiles = append(cmd.ExtraFiles, r)
			}
			var got result
			if err := json.Unmarshal([]byte(run(t, cmd)), &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// Where the kernel gives pidfds no inode number of their own, LISTEN_PIDFDID
// says nothing.
func TestAnnouncementWithoutPidfdInode(t *testing.T) {
	t.Parallel()
	a := announcement{pid: "7", pidfd: "123", count: "2"}
	if n, err := a.forUs(7, func() uint64 { return 0 }); n != 2 || err != nil {
		t.Errorf("got %d, %v, want 2", n, err)
	}
}

func FuzzAnnouncement(f *testing.F) {
	f.Add("7", "", "2", "a:b", true)
	f.Add("7", "99", "3", "", false)
	f.Add("7", "98", "1", "a", true)
	f.Add("", "", "", "", false)
	f.Add("8", "", "-1", ":::", true)
	f.Add("7", "", "99999999999999999999", "a", true)
	f.Fuzz(func(t *testing.T, pid, pidfd, count, names string, named bool) {
		a := announcement{pid, pidfd, count, names, named}
		n, err := a.forUs(7, func() uint64 { return 99 })
		if n < 0 || n > 0 && (err != nil || pid != "7") {
			t.Fatalf("forUs: %d, %v", n, err)
		}
		if n > 1000 {
			return
		}
		fds := fakeDescriptors(n)
		byName, err := a.sort(fds)
		total := 0
		for _, some := range byName {
			total += len(some)
		}
		if err == nil && total != n || err != nil && byName != nil {
			t.Fatalf("sort: %d of %d, %v", total, n, err)
		}
	})
}

// fakeDescriptors returns descriptors that are closed already.
func fakeDescriptors(n int) []*fdpass.FD {
	fds := make([]*fdpass.FD, n)
	for i := range fds {
		fds[i] = fdpass.NewFD(-1)
	}
	return fds
}

// watchdogHelper prints what WatchdogEvery makes of its environment.
func watchdogHelper() error {
	if os.Getenv("WATCHDOG_PID") == "OWN" {
		os.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	}
	every, err := WatchdogEvery()
	fmt.Print(every, err != nil)
	for _, key := range []string{"WATCHDOG_USEC", "WATCHDOG_PID"} {
		if value, ok := os.LookupEnv(key); ok {
			return fmt.Errorf("%s is still %q", key, value)
		}
	}
	return nil
}

func TestWatchdogEvery(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{
		"WATCHDOG_USEC=3000000 WATCHDOG_PID=OWN": "1.5s false",
		"WATCHDOG_USEC=3000000":                  "1.5s false",
		"WATCHDOG_USEC=3000000 WATCHDOG_PID=1":   "0s false",
		"WATCHDOG_PID=OWN":                       "0s false",
		"":                                       "0s false",
		"WATCHDOG_USEC=0 WATCHDOG_PID=OWN":       "0s true",
		"WATCHDOG_USEC=x WATCHDOG_PID=OWN":       "0s true",
	} {
		if got := run(t, helperCommand(t, "watchdog", strings.Fields(env)...)); got != want {
			t.Errorf("with %q: %s, want %s", env, got, want)
		}
	}
}
