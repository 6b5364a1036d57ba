// Package control is how the commands talk to a running supervisor: HTTP with JSON over a unix socket.
//
// The socket has mode 0600, and each connection's peer is asked for by SO_PEERCRED (unix(7)) as well: root and the
// supervisor's own user may ask, everybody else gets a refusal. The paths carry the version of the interface; fields
// may be added within a version, and clients ignore what they do not know.
//
//	GET  /v1/status             Status
//	POST /v1/reload             a stream of Event, one JSON object a line; the last has a result or an error
//	POST /v1/reload?wait=false  202 as soon as the request was taken
//	POST /v1/reload?since=N     see upgrade.Request.Since
//	POST /v1/deploy?kind=K&release=R&again=B  a stream of Event
//	GET  /v1/releases           Releases, or why nothing can be deployed now
//	POST /v1/promote            upgrade.Record
//	POST /v1/abort              upgrade.Record
//	POST /v1/upgrade            Successor
//	GET  /metrics               what a Prometheus server reads
//
// A supervisor that was replaced while a request waited answers it with upgrade.ErrReplaced, and the Client asks the one
// that follows, which has the same socket.
//
// A socket whose file somebody has removed, with its directory or without it, is made again, see Listener.Tend.
//
// A Server owns its socket, its file and its connections. A Client owns its connections.
package control
