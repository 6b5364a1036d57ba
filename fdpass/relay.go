package fdpass

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// relayBuffer is how many bytes a relay copies at once, in each direction.
const relayBuffer = 32 << 10

// A relay is a straggler and the connection over which it is passed on.
type relay struct {
	client, server *net.TCPConn
	broken         atomic.Bool // one side has broken its connection off

	clientEnded, serverEnded atomic.Bool // we have ended, or are ending, our half of it
}

// ended returns the mark for our half of a connection.
func (r *relay) ended(c *net.TCPConn) *atomic.Bool {
	if c == r.client {
		return &r.clientEnded
	}
	return &r.serverEnded
}

// run copies both ways until both have ended.
func (r *relay) run() {
	var back sync.WaitGroup
	back.Add(1)
	go func() {
		defer back.Done()
		r.pipe(r.client, r.server)
	}()
	r.pipe(r.server, r.client)
	back.Wait()
}

// pipe copies what comes from one connection to the other, and its end. If one is
// broken off, so is the other, which may not take that for an orderly end.
func (r *relay) pipe(to, from *net.TCPConn) {
	buf := make([]byte, relayBuffer)
	for {
		n, err := from.Read(buf)
		if _, err := to.Write(buf[:n]); err != nil {
			r.broken.Store(true) // the other direction ends with what is left to read there
			return
		}
		// A reset reads like an end where the other direction has had the error of it.
		// Whether it is closed is asked first: our own end is marked before it is made.
		orderly := err == io.EOF && (!tcpClosed(from) || r.ended(from).Load()) && !r.broken.Load()
		switch {
		case err == nil:
		case orderly:
			r.ended(to).Store(true)
			_ = to.CloseWrite()
			return
		default:
			r.broken.Store(true)
			_ = to.SetLinger(0)
			_ = to.Close()
			return
		}
	}
}
