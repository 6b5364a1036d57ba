// Package machine boots a Debian root file system with its own systemd as PID 1, in namespaces of its own, for one test.
//
// A [Machine] has its own processes, mounts, network with nothing but lo, host name, and cgroup tree. Over the root file system,
// which is shared and never written to, lies a writable layer in memory. Nothing of a machine outlives its first process: not a
// mount, because all are made in its own mount namespace; not a process, because the kernel ends a pid namespace with its init;
// and that init dies with the process that booted it, even if that is killed. What is left for [Machine.Stop] to remove is an empty
// directory and a cgroup without processes.
//
// The first process is the test binary itself, started again: [Init] must be called at the top of its TestMain. It mounts what
// systemd expects from a container manager (https://systemd.io/CONTAINER_INTERFACE) and then becomes systemd, which says by
// sd_notify that it has booted.
//
// A Machine owns its init process and the goroutine that waits for it. Commands that it runs inside belong to the machine's
// namespaces, but not to its cgroup: systemd does not know them.
package machine
