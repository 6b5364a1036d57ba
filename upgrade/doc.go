// Package upgrade replaces a running service by its next version without losing a connection.
//
// A Supervisor owns the service's sockets and outlives every version of it. For each version it starts a generation:
// one copy of the service with its process tree, numbered from 1 for ever. A handoff moves from the live generation to
// the next one:
//
//	hold      wait for requests that belong to this one
//	resolve   read the configuration, and resolve everything in it, anew
//	check     run the check command
//	open      bind the sockets that are new
//	start     execute the service
//	ready     wait until it says that it is ready
//	cutover   move new connections to it
//	settle    wait until the kernel shows the old generation quiet
//
// Then the new generation is live, and the old one drains behind it: it is asked to finish, has until its drain limit,
// and its whole tree is killed after that. Up to the drain, a failure ends the new generation and leaves the old one
// exactly as it was.
//
// A deploy is a handoff that makes a release the current one before it resolves anything, so that the new generation runs it. Whatever
// makes it fail, the release before is the current one again.
//
// # Invariants
//
// One handoff runs at a time. Requests that come while it holds join it; those that come later are served by exactly
// one further handoff. A stop wins over everything. A service with nothing live is always on its way back: it is
// started again at once, then with growing pauses, for ever, and its sockets stay open all along.
//
// What happens next is decided by one pure function (next, in machine.go) over named states and events, total and
// tested over all pairs. One goroutine, the one that calls Supervisor.Run, owns the state and performs what the
// function says; everything that blocks runs in a goroutine of its own and reports to it.
//
// # Who owns what
//
// A Supervisor owns the sockets that it has opened, and every generation. A generation owns its process, its notify
// socket and its cgroup, until the goroutine that ends it has seen the last of its processes. The Reaper, the
// sockets from systemd and the delegated cgroup are borrowed from the caller for as long as Run runs. When Run returns,
// no process and no goroutine of the service's is left.
//
// The package knows nothing about configuration files, the command line and the control socket: a Plan says what to
// do, and Options.Load makes a new one for each handoff.
package upgrade
