// Package fdpass owns the sockets of a supervisor and lends them to the
// generations of its service.
//
// A Spec says in plain data what a socket is to be; ParseSpec reads it from a
// command line. Open makes a Socket of each spec of a configuration, all or
// none, and over a reload keeps those that are open already. Each generation of
// the service gets duplicates with Socket.Join. A socket that has left the
// configuration ends with Socket.Retire, which loses nothing that waits in it.
//
// # What holds
//
//   - The supervisor has every socket open from Open to Close or Retire, so the
//     address is never without a listener, whatever the generations do.
//   - A socket is known by its Key, which is its address. Names, places in the
//     list, backlog, owner and permissions change around it.
//   - The status flags of a socket, O_NONBLOCK above all, belong to the open
//     file description that every process shares. They are set when the socket
//     is made and never again, but for what "Passing" says.
//   - Sockets come from socket(2) itself. They are close-on-exec from the start,
//     plain TCP and not MPTCP, and never in the hands of the runtime's poller.
//   - Nothing is asked of a clock that the kernel can be asked: queues,
//     handshakes and addresses are what it reports.
//
// # Passing
//
// A generation inherits its part in a socket, or, with PassAdopt, asks bind(2) for the
// address: then Bound.Means tells whether the two are the same. The O_NONBLOCK of such
// a part is set once more, by whoever gives it, before the generation has it.
//
// # Who owns what
//
// An FD is one descriptor with one owner. A Socket owns its descriptors and,
// for a unix path that it has bound, the file. What Join returns is the
// caller's, who closes it once the child has started. Descriptors that systemd
// passed in stay the caller's; Open works on duplicates, and neither Close nor
// Retire does anything to the socket behind them. A steered
// Socket has goroutines while it passes connections on, which Close waits for.
// The package starts no others and no processes, and keeps no state but that of
// its values.
//
// # Unix paths
//
// The path that a spec gives is the one that is bound, since that is what
// getsockname(2) tells the service. A connection is refused until the socket
// listens, and by then owner and permissions are right. A socket file that no
// process has open is removed first: one that is bound in this network namespace
// shows in sock_diag(7), one in another is found with connect(2). A live one,
// and any file that is not a socket, is an error. A file is removed only while
// its inode is the one that was bound.
//
// # Retiring
//
// A listener that is closed resets what waits in its queue. So a TCP listener is
// first kept from taking more: a filter on it drops every SYN without an answer,
// or, where the kernel does not allow that filter to us (it wants CAP_NET_ADMIN
// on newer ones), a second listener in one SO_REUSEPORT group with it takes the
// SYNs and drops them. Either is lifted with the socket; the filter stays for
// generations that still have it, the second listener does not.
//
// # Modes
//
// Shared is one kernel socket that every generation has. Steered is one for each
// generation, all in one SO_REUSEPORT group, and a classic BPF program on the
// group that says which of them gets a new connection; see docs/steering.md for
// how, and for what it rests on. It is for TCP, and Open falls back to shared, and
// tells the log, where the kernel refuses. Settle tells when nothing is on its
// way any more to a generation that Cutover has turned away from.
//
// The package is for Linux, and checks its tests on the running kernel. Where
// unix_diag or inet_diag is missing, Stats says Unknown, and Retire goes by the
// accept queue alone.
package fdpass
