// Package systemd speaks with a service manager: it tells the manager about
// this process (Notifier), hears what other processes say in the same protocol
// (Receiver), takes the sockets that the manager passed to this process
// (Inherited), and writes the unit that starts it (Unit).
//
// It does without libsystemd and D-Bus. Where the manager is not systemd, or
// there is none, nothing here fails: a nil *Notifier sends nothing, Inherited
// finds nothing, and the watchdog is off.
//
// # Who owns what
//
// A Notifier owns no descriptor between two calls: each message takes a socket
// of its own, so that it reaches the manager even after that has executed
// itself anew and bound its socket again.
//
// A Receiver owns its socket and the file it is bound to. Descriptors that come
// with a message are closed before anybody sees it, but for the one of a
// barrier, which the Message owns and its reader closes.
//
// Inherited hands each descriptor to its caller.
//
// No call starts a goroutine that outlives it.
//
// # Environment
//
// Inherited and WatchdogEvery read what the manager put into the environment of
// this process and remove it, because it is not meant for processes that this
// one starts. Nothing else reads the environment.
package systemd
