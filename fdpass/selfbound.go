package fdpass

// A SelfBound is a Socket of a service that opens its listening sockets itself:
// Join returns no descriptor for it. The supervisor looks for what the generation
// has opened once that is ready, see Met.
type SelfBound interface {
	Socket

	// Port returns the private port that gen is to listen on, from Join on; 0 if it
	// is that of the address.
	Port(gen int) int

	// Listeners returns the inode numbers of the sockets that listen where gen
	// should, and that the socket does not know as another's.
	Listeners(gen int) ([]uint64, error)

	// Met tells which descriptors of listening sockets gen has: duplicates, which it
	// takes. With them, what waits in a queue of gen's is seen and outlives its
	// process; without any, the kernel's tables have to do.
	Met(gen int, listeners []*FD) error
}
