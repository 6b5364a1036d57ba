package config

// socketKeys are the keys of a [[socket]]. Those below listen are the options of
// fdpass.ParseSpec, which judges their values.
func socketKeys() []Key {
	return []Key{
		{Name: "socket.listen", Kind: Text, Doc: `Address to listen on, such as tcp://:8080 or unix:///run/app.sock. ` +
			`It is one of tcp://HOST:PORT (tcp4, tcp6), udp://HOST:PORT (udp4, udp6), unix:///PATH (unixgram, unixpacket), ` +
			`@NAME for an abstract socket, systemd:NAME for one that a .socket unit passes, or HOST:PORT and :PORT for tcp. ` +
			`As a flag, for each socket, the other keys of a socket are options, as in --listen 'http=tcp://:8080?backlog=1024'; the sockets of the file are ignored then.`},
		{Name: "socket.name", Kind: Text, Doc: `Name that the service finds in LISTEN_FDNAMES. The default is made of the address.`},
		{Name: "socket.mode", Kind: Text, Doc: `How the generations share the socket, "steered" or "shared". The default is mode; systemd:NAME goes by ReusePort= of its .socket unit, and has to say "steered" here if ready.by, probe or canary need it.`},
		{Name: "socket.pass", Kind: Text, Doc: `How the socket comes to the service. The default is "fd": the service inherits the descriptor. ` +
			`With "port" the service opens a port itself, which each generation gets anew from ports, as PORT in its environment and as {port:NAME} in its arguments, and the firewall redirects connections there. ` +
			`It takes CAP_NET_ADMIN. With "reuseport" the service listens on the address itself, with SO_REUSEPORT, and the supervisor steers among its sockets. ` +
			`With "adopt" it inherits nothing, and binds the address that listen says by itself, as it always did: it gets the supervisor's socket in the place of its own (Linux 5.9; see docs/adopt.md).`},
		{Name: "socket.ports", Kind: Text, Doc: `Private ports that the generations get in turn, two at least, such as "18081-18082"; only for pass = "port".`},
		{Name: "socket.protocol", Kind: Text, Doc: `What is spoken on the socket, "http/1" for HTTP/1 without TLS; needed for handoff.keepalive.`},
		{Name: "socket.overlap", Kind: Bool, Doc: `Whether two generations may have the socket at the same time; only for datagrams, of which each goes to one of the two then, by chance. ` +
			`The default is true. With false the old generation is stopped, and gone, before the new one is started, and datagrams wait in the socket meanwhile: ` +
			`a version that does not get ready then costs the time until the old one is started again.`},
		{Name: "socket.backlog", Kind: Number, Doc: `How many connections may wait to be accepted. The default is as many as the kernel allows.`},
		{Name: "socket.owner", Kind: Text, Doc: `Owner of the socket's file, by name or number. The default is the supervisor's user.`},
		{Name: "socket.group", Kind: Text, Doc: `Group of the socket's file, by name or number. The default is the supervisor's group.`},
		{Name: "socket.permissions", Kind: Octal, Doc: `Permissions of the socket's file, such as "0660". The default is what the supervisor's umask leaves of 0777.`},
		{Name: "socket.v6only", Kind: Bool, Doc: `Keep IPv4 out of a socket on an IPv6 address.`},
		{Name: "socket.freebind", Kind: Bool, Doc: `Allow an address that the machine does not have yet.`},
		{Name: "socket.reuseport", Kind: Bool, Doc: `Let other sockets of the same user bind the same address.`},
		{Name: "socket.transparent", Kind: Bool, Doc: `Allow addresses that are not the machine's. It takes CAP_NET_ADMIN.`},
		{Name: "socket.rcvbuf", Kind: Number, Doc: `Size of the receive buffer in bytes. The default is the kernel's.`},
		{Name: "socket.sndbuf", Kind: Number, Doc: `Size of the send buffer in bytes. The default is the kernel's.`},
		{Name: "socket.mark", Kind: Number, Doc: `Firewall mark of the packets sent. It takes CAP_NET_ADMIN.`},
		{Name: "socket.device", Kind: Text, Doc: `Network interface that the socket is confined to.`},
		{Name: "socket.defer-accept", Kind: Duration, Doc: `How long a connection may wait in the kernel for its first data, in whole seconds.`},
		{Name: "socket.fastopen", Kind: Number, Doc: `How many connections may wait that sent data with their SYN.`},
		{Name: "socket.nonblocking", Kind: Bool, Doc: `Set O_NONBLOCK on the socket that the service gets.`},
	}
}
