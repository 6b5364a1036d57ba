package machine

import "testing"

func TestHierarchy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ mounts, want string }{
		"unified": {"proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", "/sys/fs/cgroup"},
		"hybrid": {"tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n" +
			"cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n", "/sys/fs/cgroup/unified"},
		"elsewhere": {"cgroup2 /mnt/other/sys/fs/cgroup cgroup2 rw 0 0\n", ""},
		"none":      {"", ""},
	} {
		if got := hierarchy(tt.mounts); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
