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
		switch {
		case err == nil:
		case err == io.EOF && !r.broken.Load():
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
