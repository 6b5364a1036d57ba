package carry

import (
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// relays pass requests on: one of each connection.
type relays struct {
	most   int
	log    *slog.Logger
	server *http.Server
	conns  chan net.Conn // for the server to accept
	served chan struct{} // closed when it accepts no more

	begun, lost atomic.Int64
	buffer      [maxHead]byte // for the batch to peek into

	asked context.Context // until all requests are to be given up
	end   context.CancelFunc

	mu   sync.Mutex
	busy int // requests that are being passed on
	open map[*relayed]bool
	all  sync.WaitGroup
}

// newRelays begins to accept.
func newRelays(o Options) *relays {
	r := &relays{most: o.Relays, log: o.Log, conns: make(chan net.Conn), served: make(chan struct{}), open: make(map[*relayed]bool)}
	r.asked, r.end = context.WithCancel(context.Background())
	r.server = &http.Server{
		Handler:           r.handler(),
		ReadHeaderTimeout: headLimit, // the head is there
		MaxHeaderBytes:    2 * maxHead,
		ErrorLog:          discarded(),
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	r.server.SetKeepAlivesEnabled(false) // every answer says that the connection ends, and it does
	go func() {
		defer close(r.served)
		_ = r.server.Serve(acceptor{r})
	}()
	return r
}

// room is how many requests more may be passed on now.
func (r *relays) room() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most - r.busy
}

// begin passes the request on that waits in the connection fd, which it takes. It does not block.
func (r *relays) begin(fd *fdpass.FD) {
	r.begun.Add(1)
	file := os.NewFile(uintptr(fd.Disown()), "carried")
	c, err := net.FileConn(file)
	file.Close()
	if err != nil {
		r.lost.Add(1)
		r.log.Warn("a request on a connection that was carried over is lost", "cause", err)
		return
	}
	rc := &relayed{TCPConn: c.(*net.TCPConn), relays: r}
	r.mu.Lock()
	r.open[rc] = true
	r.busy++
	r.mu.Unlock()
	r.all.Add(1)
	r.conns <- rc
}

// close waits for what is being passed on. If ctx ends, it is cut off.
func (r *relays) close(ctx context.Context) {
	defer r.end()
	cut := context.AfterFunc(ctx, func() {
		r.end()
		r.mu.Lock()
		defer r.mu.Unlock()
		for c := range r.open {
			_ = c.TCPConn.Close()
		}
	})
	r.all.Wait()
	cut()
	_ = r.server.Close()
	<-r.served
}

// An acceptor is the listener of the server.
type acceptor struct{ *relays }

func (a acceptor) Accept() (net.Conn, error) {
	c, more := <-a.conns
	if !more {
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close is called once, by the server, when nothing comes any more.
func (a acceptor) Close() error {
	close(a.conns)
	return nil
}

func (a acceptor) Addr() net.Addr { return &net.TCPAddr{} }

// A relayed is a client's connection while its request is passed on.
type relayed struct {
	*net.TCPConn
	relays *relays
	once   sync.Once
	cut    atomic.Bool // the answer is not whole: the end must not look like one
}

const (
	// What a client has sent beside its request is read away for a moment: it would turn the close into a reset, which may
	// overtake the answer. The client sends all of it again, since the answer says that the connection ends.
	lastRead = time.Second
	lastMost = 1 << 20
)

// Close ends the connection in order.
func (c *relayed) Close() (err error) {
	c.once.Do(func() {
		r := c.relays
		defer r.all.Done()
		r.mu.Lock()
		r.busy--
		r.mu.Unlock()
		if c.cut.Load() {
			_ = c.SetLinger(0)
		} else if c.CloseWrite() == nil {
			_ = c.SetDeadline(time.Now().Add(lastRead))
			_, _ = io.CopyN(io.Discard, c.TCPConn, lastMost)
		}
		err = c.TCPConn.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, c)
	})
	return err
}

// connKey is where a request's context has its connection.
type connKey struct{}

// handler passes a request on, as the client has sent it but for what belongs to the connection.
func (r *relays) handler() http.Handler {
	dialer := &net.Dialer{}
	dialer.SetMultipathTCP(false)
	proxy := &httputil.ReverseProxy{
		Rewrite: rewrite,
		Transport: &http.Transport{
			DialContext:           dialer.DialContext,
			DisableKeepAlives:     true, // one connection for each: net/http never sends a request twice on a new one
			DisableCompression:    true,
			ExpectContinueTimeout: time.Second,
		},
		FlushInterval: -1, // a stream stays one
		ErrorLog:      discarded(),
		ErrorHandler:  r.failed,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		// For net/http a client that has ended its half has gone. It may wait for the answer.
		ctx, cancel := context.WithCancel(context.WithoutCancel(req.Context()))
		defer context.AfterFunc(r.asked, cancel)()
		defer cancel()
		defer func() {
			if cause := recover(); cause != nil {
				if c, ok := ctx.Value(connKey{}).(*relayed); ok {
					c.cut.Store(true)
				}
				panic(cause)
			}
		}()
		proxy.ServeHTTP(asSent{w}, req.WithContext(ctx))
	})
}

// discarded is for what net/http says about clients.
func discarded() *log.Logger { return log.New(io.Discard, "", 0) }

// rewrite addresses a request to where its client has connected to, and takes nothing out of it that says who asks.
func rewrite(p *httputil.ProxyRequest) {
	address := ""
	if local, ok := p.In.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		address = local.String()
	}
	p.Out.URL.Scheme, p.Out.URL.Host = "http", address
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	if target := p.In.RequestURI; !strings.HasPrefix(target, "//") {
		p.Out.URL = &url.URL{Scheme: "http", Host: address, Opaque: target} // byte for byte
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, given := p.In.Header[name]; given {
			p.Out.Header[name] = values
		}
	}
}

// failed answers a request that got no answer.
func (r *relays) failed(w http.ResponseWriter, req *http.Request, err error) {
	r.lost.Add(1)
	if req.Context().Err() != nil {
		panic(http.ErrAbortHandler) // there is nothing to say
	}
	r.log.Warn("a request on a connection that was carried over got no answer", "client", req.RemoteAddr, "cause", err)
	w.WriteHeader(http.StatusBadGateway)
}

// asSent keeps net/http from adding headers to an answer.
type asSent struct{ http.ResponseWriter }

// Unwrap is for http.ResponseController.
func (w asSent) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sends the headers.
func (w asSent) WriteHeader(status int) {
	if status >= http.StatusOK {
		for _, name := range []string{"Content-Type", "Date"} {
			if _, given := w.Header()[name]; !given {
				w.Header()[name] = nil
			}
		}
	}
	w.ResponseWriter.WriteHeader(status)
}
