// Package logging writes the supervisor's log: as text, as JSON, or to systemd's journal in its own protocol, in which every
// attribute is a field.
//
// Whatever becomes of who reads the log, nobody who logs ever waits for it: see [Logger]. A Logger owns a goroutine and, with the
// journal, a socket. Standard error is borrowed: the service has it too, so that it is never made non-blocking.
package logging
