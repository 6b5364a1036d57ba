package fdpass

import (
	"context"
	"errors"
	"net"
	"time"
)

// ErrNotChangeable is returned by Open and by Socket.Reconfigure where a kept
// socket would have to change in something that is decided when it is bound.
var ErrNotChangeable = errors.New("cannot be changed while the socket is open")

// A Socket is one listening or datagram socket of the configuration, which the
// supervisor owns and lends to the generations of its service. It hides how
// they share the address, so that the callers go the same way in every mode:
//
//	Join(2, 0)     a seat for generation 2, and a descriptor for its process
//	  start it; if it does not get ready: Leave(2), and nothing has happened
//	Dial(2)        a connection that only 2 can accept, to see whether it does
//	Share(2, 0.1)  a tenth of new connections goes to 2
//	Cutover(2)     all new connections go to 2
//	  Settle: wait until what was on its way to 1 has arrived there
//	  tell 1 to stop; once it is gone: Leave(1)
//
// Until 1 was told to stop, Cutover(1) is the way back.
//
// Generations are numbered from 1.
//
// All methods may be called from several goroutines at once, but for
// Reconfigure and Retire, which are for the one that owns the handoff. Dial and
// Retire block, until their context ends at the latest. Join and Leave may block
// where a seat is taken away: while connections are on their way to it, and up to
// a second after the last of them. The others do not. After Close or Retire all
// but Addr and Mode return os.ErrClosed, except for Close.
type Socket interface {
	// Addr returns the address that the kernel says the socket is bound to, as
	// a spec: "tcp://127.0.0.1:41234" even where the configuration said port 0.
	// A socket on [::] that takes IPv4 as well is tcp://, one that does not is
	// tcp6://. Addr, like Mode, answers after Close too.
	Addr() string

	// Mode returns how the generations share it, never "".
	Mode() Mode

	// Join gives generation gen a seat and returns the descriptor that its
	// process is to inherit: a duplicate that the caller closes once the
	// process has started. New connections do not go there before Cutover,
	// unless no other generation has a seat; in shared mode they may, as soon
	// as the process accepts.
	//
	// If heirOf is not 0, gen takes the seat of that generation, which has
	// ended, and with it the connections that wait there; in shared mode they
	// wait for all.
	//
	// In steered mode there are two seats. If both are taken, the one that
	// connections do not go to is taken away as by Leave: its generation must
	// have been told to stop.
	Join(gen, heirOf int) (*FD, error)

	// Cutover sends all new connections to gen, from one packet to the next. In
	// shared mode it does nothing: they go to whoever accepts first, until the
	// other generations have stopped accepting.
	//
	// 0 is for the end of all generations: connections go to a socket of
	// systemd's that no generation has, if there is one, and wait there for
	// whoever systemd gives it to next.
	Cutover(gen int) error

	// Share sends a part of new connections, 0.05 for 5 percent, to gen, and the
	// rest where Cutover has sent them, each by chance. It holds until the next
	// Share or Cutover. In shared mode it does nothing.
	Share(gen int, share float64) error

	// Dial opens a connection to the socket's own address that only gen can
	// accept, wherever others go. It comes from the address that it goes to: the
	// socket's, or a loopback address where the socket is on all. It returns
	// ErrNotSteered in shared mode.
	Dial(ctx context.Context, gen int) (net.Conn, error)

	// Pending returns what a census shows to be on its way to gen since Cutover
	// has turned away from it; limit is how long a connection may be silent and
	// still count. Without a census, which may be nil, accept queues are all
	// that it looks at. Settle calls it as often as it takes. In shared mode
	// nothing can be told apart, and nothing is pending.
	Pending(gen int, c *Census, limit time.Duration) Unsettled

	// Forward begins to accept connections in the stead of gen, which was told to
	// stop and may not do it any more, and passes them on to where Cutover has
	// sent the others, until gen leaves. In shared mode it does nothing.
	Forward(gen int) error

	// Leave takes the seat of gen away: it has ended, or never got ready.
	// Connections that wait there are passed on, unless it is the only seat; then
	// they wait for the next generation. It does nothing for a generation without
	// a seat and in shared mode.
	Leave(gen int) error

	// Stats asks the kernel what waits in the socket's queues now. In steered mode
	// that is the sum over the seats, and the limit that of the one that new
	// connections go to.
	Stats() (Stats, error)

	// Seats returns the generations that have a seat, with what waits there and the
	// part of new connections that goes there, in the kernel's order. In shared
	// mode there are none.
	Seats() ([]Seat, error)

	// Reconfigure changes the socket to what spec says about backlog, owner,
	// group and permissions; the name does not matter to it. If spec differs in
	// anything else it returns an error that wraps ErrNotChangeable, and
	// nothing was changed.
	Reconfigure(spec Spec) error

	// Retire is for a socket that has left the configuration. It stops taking
	// new connections without turning away those that wait already or whose
	// handshake is under way, blocks until the generations have accepted all of
	// these, and closes the socket as Close does. If ctx ends first, the socket
	// is closed all the same, and the error tells what still waited and wraps
	// the context's cause; it is lost unless a process has the socket open.
	//
	// A TCP client that is too late gets no answer, rather than a reset, as long
	// as anybody has the socket; for a unix path there is no file any more. New
	// connections to an abstract name and datagrams cannot be kept away without
	// harm to the generations that still serve them: they are only waited for. A
	// socket of systemd's is closed at once, since systemd goes on with it.
	Retire(ctx context.Context) error

	// Snapshot returns what it takes, besides the descriptors, to Restore the
	// socket in another process.
	Snapshot() (Snapshot, error)

	// Listening returns an error that wraps ErrShutDown if the generation's seat
	// takes no connections any more, because the generation has called shutdown(2)
	// on it: then new connections go to another one, whatever Cutover and Share
	// have said. In shared mode, and for a generation without a seat, it is nil.
	Listening(gen int) error

	// Revive makes the seat of a generation that Listening complains of listen again,
	// so that connections wait there and are not refused, and reports whether that had
	// to be. Whether the generation accepts them is another matter. In shared mode it
	// does nothing: that is seen to at once, whoever has done it.
	Revive(gen int) (bool, error)

	// PutBack puts the socket's file back at once if a process has removed it, as a
	// service does that is about to bind the path itself. What somebody else has put
	// there is left. It does nothing for a socket without a file of our own.
	PutBack() error

	// EachPart calls do for every kernel socket that is the supervisor's own, and
	// ends with the first error. fd is borrowed for the call, in which no other
	// method may be called.
	EachPart(do func(id string, fd *FD) error) error

	// Release closes the supervisor's descriptors, as Close does, and leaves the
	// socket's file: somebody else has the socket, or will have it. Connections
	// that are being passed on go on, until Relays.
	Release() error

	// Relays blocks until no connection is being passed on any more, or ctx ends:
	// then what is left is cut.
	Relays(ctx context.Context)

	// Close closes the supervisor's descriptors and removes the socket's file
	// if it is still this socket's. Processes that have inherited the socket
	// keep it. Closing again does nothing and returns nil.
	Close() error
}

// Unknown stands in Stats for what the kernel does not tell.
const Unknown = -1

// Stats is what waits in a socket's queues at one moment. Any of the numbers
// may be Unknown.
type Stats struct {
	// Queue is how many connections wait to be accepted, and QueueLimit how
	// many may. Both are 0 for datagram sockets.
	Queue, QueueLimit int

	// Unread tells about the datagrams that wait to be read. For UDP it is the
	// memory they take, in bytes, in which the kernel counts its own
	// bookkeeping too, and UnreadLimit is the size of the receive buffer. For
	// unixgram, where the kernel has no such sum, it is the size of the first
	// one, and UnreadLimit is Unknown. Both are 0 for listening sockets.
	Unread, UnreadLimit int

	// Dropped is how many packets or datagrams the kernel has thrown away since
	// the socket was made, because a queue was full or a filter said so.
	Dropped int

	// Forwarded is how many connections were passed on to another generation
	// because the one that they came to did not accept them any more, and Lost how
	// many of those could not be.
	Forwarded, Lost int

	// ShutDown says that nobody can connect any more, because a process has called
	// shutdown(2) on the socket, or on the seat that new connections go to.
	ShutDown bool

	// Repaired is how many times a process had shut a shared socket down for
	// everybody, or removed its path, and it was put right, and how often Revive had
	// something to do. It counts from when this process has it.
	Repaired int
}

// A Seat is one generation's part in a steered socket.
type Seat struct {
	Generation int     // 0 for a socket that none has now
	Share      float64 // of new connections, of 1
	Queue      int     // connections that wait to be accepted
}

// A Bound is one entry of a configuration with the socket that serves it.
type Bound struct {
	// Spec is the entry, with its name filled in.
	Spec Spec
	// Socket is owned by whoever owns the Bound.
	Socket Socket
}
