package control

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"golang.org/x/sys/unix"
)

// peer is who is at the other end of a connection.
type peer struct {
	uid   uint32
	known bool
}

type peerKey struct{}

// withPeer notes the peer of a new connection.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	p := peer{}
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) {
			if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				p = peer{cred.Uid, true}
			}
		})
	}
	return context.WithValue(ctx, peerKey{}, p)
}

func peerOf(ctx context.Context) peer {
	p, _ := ctx.Value(peerKey{}).(peer)
	return p
}

// withoutBody refuses requests with a body: none needs one, and one that never comes would be waited for.
func withoutBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close") // and do not read it
			http.Error(w, "a request here has no body", http.StatusRequestEntityTooLarge)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authorize refuses everybody but root and the supervisor's own user.
func authorize(next http.Handler) http.Handler {
	own := uint32(os.Geteuid())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := peerOf(r.Context())
		if !p.known || p.uid != 0 && p.uid != own {
			http.Error(w, fmt.Sprintf("uid %d may not control this supervisor; only root and uid %d may", p.uid, own), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
