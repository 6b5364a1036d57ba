package child

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// stat is a line as the kernel writes it, with a name, a state and a number of threads.
func statLine(name, state string, threads int) string {
	return fmt.Sprintf("123 (%s) %s 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 %d 0 456789 10 11 18446744073709551615 1 1 0\n", name, state, threads)
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		line string
		dead bool
	}{
		{statLine("svc", "S", 1), false},
		{statLine("a b) (c) R 1 2 3", "R", 4), false},
		{statLine(")\n", "T", 1), false},
		{statLine("", "D", 1), false},
		{statLine("svc", "Z", 1), true},
		{statLine("svc", "X", 0), true},
		{statLine("svc", "Z", 3), false}, // its other threads run
	} {
		st, err := parseStat([]byte(test.line))
		want := procStat{procID: procID{pid: 123, start: 456789}, ppid: 7, session: 9, dead: test.dead}
		if err != nil || st != want {
			t.Errorf("%q: %+v, %v; want %+v", test.line, st, err, want)
		}
	}
	going := strings.Replace(statLine("svc", "R", 1), " 4194560 ", " 4194564 ", 1)
	if st, err := parseStat([]byte(going)); err != nil || !st.exiting || st.dead {
		t.Errorf("%q: %+v, %v; want it to be exiting", going, st, err)
	}
	for _, line := range []string{"", "123", "123 (svc", "(svc) S 1", "x (svc) S 1 2 3", "123 (svc) S 1 2 3", ") 1 (", statLine("svc", "SS", 1), statLine("svc", "S", 1)[:50]} {
		if st, err := parseStat([]byte(line)); err == nil {
			t.Errorf("%q: %+v", line, st)
		}
	}
	st, err := readStat(os.Getpid())
	if err != nil || st.pid != os.Getpid() || st.ppid != os.Getppid() || st.start == 0 || st.dead {
		t.Errorf("ourselves: %+v, %v", st, err)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statLine("svc", "S", 1)))
	f.Add([]byte(statLine("a b) (c) R 1 2 3", "Z", 4)))
	f.Add([]byte("1 () S"))
	f.Add([]byte("1 ) ("))
	f.Fuzz(func(t *testing.T, b []byte) {
		st, err := parseStat(b)
		if err != nil && st != (procStat{}) {
			t.Errorf("%+v with the error %v", st, err)
		}
		if err == nil && !bytes.HasPrefix(bytes.TrimSpace(b), []byte(strconv.Itoa(st.pid))) && b[0] != '+' && b[0] != '0' {
			t.Errorf("pid %d of %q", st.pid, b)
		}
	})
}

func TestCgroupFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0::/\n": "/",
		"12:pids:/x\n1:name=systemd:/y\n0::/system.slice/a b.service\n": "/system.slice/a b.service",
		"1:name=systemd:/y\n": "",
		"0::/../outside\n":    "", // of another cgroup namespace
		"":                    "",
	} {
		if got, ok := cgroupOf([]byte(text)); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v", text, got, ok)
		}
	}
	for text, want := range map[string]string{
		"29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n":                                "/sys/fs/cgroup",
		"1 2 0:5 / /proc rw - proc proc rw\n29 23 0:26 / /sys/fs/cgroup/uni\\040fied rw - cgroup2 none rw\n":   "/sys/fs/cgroup/uni fied",
		"29 23 0:26 /part /mnt rw - cgroup2 cgroup2 rw\n30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n": "/sys/fs/cgroup",
		"30 23 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n":                                        "",
		"nonsense\n - cgroup2\n": "",
	} {
		if got, ok := cgroupMount([]byte(text)); ok != (want != "") || got != want {
			t.Errorf("%q: %q, %v", text, got, ok)
		}
	}
}

func TestHasEnv(t *testing.T) {
	t.Parallel()
	for _, entry := range os.Environ() {
		if !hasEnv(os.Getpid(), entry) && len(entry) > 0 {
			t.Errorf("%q is not found", entry)
			break
		}
	}
	if hasEnv(os.Getpid(), "NO_SUCH_VARIABLE=1") || hasEnv(1<<30, "A=1") {
		t.Error("found what is not there")
	}
}

func BenchmarkScan(b *testing.B) {
	t := Tree{main: &Process{id: procID{pid: 1 << 30}}, notify: "/none"}
	for b.Loop() {
		if _, err := t.scan(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkContains(b *testing.B) {
	t := Tree{main: &Process{id: procID{pid: 1 << 30}}, notify: "/none"}
	for b.Loop() {
		if t.Contains(os.Getppid()) {
			b.Fatal("found")
		}
	}
}
