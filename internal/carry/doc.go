// Package carry carries kept-alive HTTP/1 connections over from a process tree that is about to be stopped to whoever
// serves their address then.
//
// A Batch is the connections of one such tree. Park duplicates them and sets the low water mark of each (SO_RCVLOWAT) so
// high that bytes which arrive from then on wake nobody; they wait in the kernel. Once each is between two requests, or
// has been left alone because it did not get there, the caller tells the tree to stop, and then calls Run. That waits
// for the tree to close them, which sends nothing, since the duplicate is open still, and passes the next request of
// each on, over a new connection to the address that its client has connected to. The answer goes back with
// "Connection: close", so that the client comes back by itself.
//
// # Invariants
//
// Nothing is read from a connection that the tree has open, and nothing is written to it. Nothing is read either after
// the tree has closed it if it has read or written anything since Park found it between two requests: how far it has
// come is known exactly. At most one request of each connection is passed on, once, and none whose end is not certain.
// A connection of which any of that is in doubt is left to the tree, with the low water mark back where it was.
//
// # Who owns what
//
// A Batch owns the duplicates. It borrows the process, and knows nothing of generations, sockets and handoffs. Every
// goroutine of it has ended when Run returns.
package carry
