package main

import "net"

// A mannered listener makes something else of the connections that it accepts.
type mannered struct {
	net.Listener
	accepted func(c *net.TCPConn) net.Conn // takes c
}

func (l mannered) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.accepted(c.(*net.TCPConn)), nil
}

// shut is a connection that is ended with shutdown(2), as HAProxy does it.
type shut struct{ *net.TCPConn }

func (s shut) Close() error {
	_ = s.CloseWrite()
	_ = s.CloseRead()
	return s.TCPConn.Close()
}
