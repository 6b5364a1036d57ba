// Package redirect has the firewall send the connections to one public TCP port
// to one of several private ports of this machine, over nf_tables.
//
// A Table is one table of the firewall, in the family inet, that nobody else has:
// its name tells whose it is. In it are three chains. Two, for what comes from
// other machines and for what this one sends to itself, change the port of a new
// connection and leave its address as it is. The third drops what comes to a
// private port from another machine and was not redirected.
//
// # What holds
//
//   - A Route replaces the one before in one transaction of the kernel's: every
//     new connection finds either the old one or the new one.
//   - The kernel looks at the rules for the first packet of a connection alone, and
//     goes by its table of connections for the others (conntrack). So connections
//     that are open, and handshakes that have begun, stay where they are. The chains
//     have to be there for that: a Table is emptied, and not removed, as long as
//     there are such connections.
//   - What the firewall does is read from it and never remembered. A table that has
//     anything in it which was not put there by this package is not touched.
//
// It takes CAP_NET_ADMIN, and Linux 5.9 or later. It acts on the network namespace
// of the calling thread.
package redirect
