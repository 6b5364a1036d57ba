// Package succession lets a supervisor's process be followed by another one, started from the program as it is on disk
// then, without a moment in which the service is not taken care of.
//
// github.com/cloudflare/tableflip starts the successor, watches whether it ends or hangs, and hears that it is ready. What
// it says to its predecessor, and gets from it, goes over a socket pair (unix(7), SOCK_SEQPACKET) that tableflip passes on:
//
//	successor    predecessor
//	prepared →               it has read its configuration and the state file, and could take over
//	         ← descriptors   several packets
//	         ← go            everything is written down, and the predecessor has let go
//	ready    →               over tableflip: it has everything
//	         ← main          the service manager knows that it is the main process now
//
// Until the successor is ready, the predecessor can go back to what it was; a successor that ends before that has changed
// nothing. What it says on the way out is the reason that the user gets.
//
// The program is found as it was the first time, by the first word of the command line, in the directory of that time.
package succession
