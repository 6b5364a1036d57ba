// Package fdpass owns the listening sockets of a supervisor and passes them to
// the generations of its service.
package fdpass
