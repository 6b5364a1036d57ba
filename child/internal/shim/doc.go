// Package shim is what a child runs between fork and the exec of its program.
//
// Between fork and exec a Go program may run no Go code, so what has to happen
// in the child itself, above all LISTEN_PID, which is the child's own pid, is
// done by a second copy of the supervisor's binary: the parent executes
// /proc/self/exe with Name as argv[0] and, in the variable Variable, the number
// of a socket. The init function of this package sees them, reads a Spec from
// the socket, carries it out on the process's first thread, and executes the
// program. The socket is closed by that exec, so the end of the stream tells the
// parent that the program runs; before it, a Report tells what failed.
//
// # Before everything else
//
// Every program that imports the package, however indirectly, contains the shim
// and pays for it with one look into its environment. The shim pays for that
// program: with its start-up, which has to stay short. Go initialises a package
// as soon as all that it imports is initialised, of several such packages the
// one with the least import path. This one imports syscall and nothing else, so
// that net/http and its like are never initialised in a child; a test watches
// over it. It is also why the encoding is spelled out here.
//
// # Descriptors
//
// The parent has put 0, 1, 2 and what else the program gets in place. All above
// Spec.Keep is marked close-on-exec, whoever has opened it.
package shim
