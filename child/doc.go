// Package child starts, watches and ends the processes of one generation of a
// service: a main process and everything that descends from it.
//
// # Starting
//
// A Reaper starts a Command and returns a Process once its program runs. Between
// fork and exec the child is the supervisor's own binary for a moment (package
// child/internal/shim), because some things can only be done by the child itself:
// LISTEN_PID has to be its own pid, and signals, limits and credentials are its
// own too. A program that imports this package has that shim in it; its init
// function returns at once in a process that is none.
//
// What the program finds:
//
//   - Sockets at 3, 4, ... in order, then extra descriptors, and no other one
//     above 2, whatever the supervisor has open. Their status flags, O_NONBLOCK
//     above all, are never touched: all who hold an open file share them.
//   - LISTEN_FDS, LISTEN_FDNAMES and LISTEN_PID as sd_listen_fds(3) has them if
//     there are sockets, NOTIFY_SOCKET if there is one, and besides exactly the
//     environment of the Command.
//   - A session and a process group of its own, the default action for every
//     signal and none blocked, the resource limits that the supervisor was started
//     with.
//   - /dev/null as stdin and the supervisor's own stdout and stderr.
//
// # Offers
//
// A program may be offered sockets that it does not inherit. Its calls of bind(2) are told
// to this process by a seccomp filter, and where one asks for the address of an offered
// socket, that socket takes the place of the program's own. No other call is touched, and
// none is forbidden. Process.Bound waits until all were asked for; Process.Listener and
// Process.Lend pass the answering on to another supervisor.
//
// # Waiting
//
// A process has one Reaper. It alone waits for children, its own and the orphans
// that fall to the supervisor, so nothing else in the process may start any, but
// under Reaper.HoldStrays. Programs in which that cannot be had, tests above all,
// use ReaperOptions.OwnChildrenOnly.
//
// A Process holds a pidfd. Nobody is ever signalled by a number that may have come
// to mean somebody else.
//
// # Ending
//
// A Tree finds all processes of a generation, by its cgroup (Delegation, Cgroup)
// where there is one and by descent, session and environment besides, and kills
// them so that none can fork away.
//
// # Being ready
//
// A Waiter waits for one kind of ready signal: NotifyReady, FDReady, ExecReady and
// DelayReady. Each returns as soon as the process has ended.
//
// # Who owns what
//
// Descriptors in a Command are borrowed for the time of Start. The caller closes
// each Process, Cgroup and Waiter, and the Reaper last. Closing a Process gives its
// pidfd back and leaves the process alone. Goroutines: one in each Reaper, and
// one in each Process that was adopted or offered sockets, which Close waits for; all
// others end with the call that has started them.
//
// It needs Linux 5.3, and 5.9 for offers. Better with: 5.7 (a child is born in its cgroup), 5.11
// (close_range), 5.14 (cgroup.kill), 6.9 (a process group that forks fast is stopped
// in one step).
package child
