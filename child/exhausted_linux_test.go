package child

import (
	"slices"
	"testing"
)

func TestPidsCgroups(t *testing.T) {
	t.Parallel()
	const (
		two = "24 1 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
		one = "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
			"36 25 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
			"38 25 0:34 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	)
	for name, tc := range map[string]struct {
		cgroups, mounts string
		want            []string
	}{
		"version 2": {"0::/system.slice/svc.service\n", two,
			[]string{"/sys/fs/cgroup/system.slice/svc.service", "/sys/fs/cgroup/system.slice", "/sys/fs/cgroup"}},
		"version 1": {"8:pids:/a\n2:cpu,cpuacct:/b\n0::/c\n", one,
			[]string{"/sys/fs/cgroup/pids/a", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified/c", "/sys/fs/cgroup/unified"}},
		"in a container": {"0::/docker/x/svc\n", "24 1 0:22 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
			[]string{"/sys/fs/cgroup/svc", "/sys/fs/cgroup"}},
		"at the root":        {"0::/\n", two, []string{"/sys/fs/cgroup"}},
		"without the mounts": {"0::/a\n", "", nil},
		"garbage":            {"x\n::\n", "a b - c\n - \n", nil},
	} {
		if got := pidsCgroups(tc.cgroups, tc.mounts); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestReached(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		now, most int
		want      bool
	}{{100, 100, true}, {95, 100, true}, {92, 100, false}, {-1, 100, false}, {100, -1, false}} {
		if got := reached(tc.now, tc.most); got != tc.want {
			t.Errorf("%d of %d: %v", tc.now, tc.most, got)
		}
	}
}
