package drill

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNotLoopback means that the address is another machine's, or could be, and [Config.AllowRemote] is not set.
var ErrNotLoopback = errors.New("not a loopback address")

// protocol is what is spoken on a connection.
type protocol uint8

const (
	http1 protocol = iota
	http2
	plain
)

// address is one place to connect to.
type address struct {
	domain int
	path   string         // of a unix socket
	ip     netip.AddrPort // of a TCP socket
}

func (a *address) String() string {
	if a.domain == unix.AF_UNIX {
		return "unix:" + a.path
	}
	return a.ip.String()
}

// sockaddr returns a new value for each connect, which writes to it.
func (a *address) sockaddr() unix.Sockaddr {
	switch a.domain {
	case unix.AF_INET:
		return &unix.SockaddrInet4{Port: int(a.ip.Port()), Addr: a.ip.Addr().As4()}
	case unix.AF_INET6:
		return &unix.SockaddrInet6{Port: int(a.ip.Port()), Addr: a.ip.Addr().As16()}
	}
	return &unix.SockaddrUnix{Name: a.path}
}

// target is where requests go.
type target struct {
	url      *url.URL
	address  *address
	protocol protocol
	tls      *tls.Config // nil without TLS
	host     string      // the Host header
}

// target understands the configuration's URL. A name is resolved here, once: each request goes to the same address.
func (c *Config) target(ctx context.Context) (*target, error) {
	wrong := fmt.Errorf("%q begins with neither http://, https://, tcp:// nor unix://", c.URL)
	if !strings.Contains(c.URL, "://") {
		return nil, wrong
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL is not one: %w", err)
	}
	t := &target{url: u, host: u.Host}
	defaultPort := 0
	switch u.Scheme {
	case "http":
		defaultPort = 80
	case "https":
		defaultPort = 443
	case "tcp", "unix":
		t.protocol = plain
		if c.HTTP2 || c.Method != "" || len(c.Body) > 0 || len(c.Header) > 0 {
			return nil, fmt.Errorf("%s speaks no HTTP: leave out what belongs to it, or give an http:// URL", c.URL)
		}
	default:
		return nil, wrong
	}
	if t.protocol != plain {
		if len(c.Send) > 0 || len(c.Expect) > 0 {
			return nil, errors.New("bytes to send and to expect are for tcp:// and unix:// alone")
		}
		if c.HTTP2 {
			t.protocol = http2
		}
		if u.Path == "" {
			u.Path = "/"
		}
		if host := c.Header.Get("Host"); host != "" {
			t.host = host
		}
		if t.host == "" {
			t.host = "localhost"
		}
	}
	if u.Scheme == "https" {
		if t.tls, err = c.tlsConfig(u.Hostname()); err != nil {
			return nil, err
		}
	} else if c.Insecure || c.CA != "" || c.ServerName != "" {
		return nil, fmt.Errorf("%s has no TLS: give an https:// URL", c.URL)
	}
	switch {
	case u.Scheme == "unix" && c.Unix != "":
		return nil, errors.New("a unix:// URL names its socket itself")
	case u.Scheme == "unix":
		path := u.Path
		if path == "" {
			path = u.Opaque
		}
		t.address, err = unixAddress(path)
	case c.Unix != "":
		t.address, err = unixAddress(c.Unix)
	default:
		t.address, err = c.resolve(ctx, u, defaultPort)
	}
	return t, err
}

func unixAddress(path string) (*address, error) {
	if path == "" {
		return nil, errors.New("a unix socket needs a path or an @name")
	}
	return &address{domain: unix.AF_UNIX, path: path}, nil
}

// resolve turns host and port into the one address that all requests go to.
func (c *Config) resolve(ctx context.Context, u *url.URL, port int) (*address, error) {
	if p := u.Port(); p != "" {
		var err error
		if port, err = strconv.Atoi(p); err != nil {
			return nil, fmt.Errorf("%q is not a port", p)
		}
	}
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("%s needs a port between 1 and 65535", c.URL)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
		if err != nil {
			return nil, fmt.Errorf("find the address of %s: %w", u.Hostname(), err)
		}
		ip = found[0]
		for _, f := range found { // what most services bind
			if f.Unmap().Is4() {
				ip = f
				break
			}
		}
	}
	ip = ip.Unmap()
	if !ip.IsLoopback() && !c.AllowRemote {
		return nil, fmt.Errorf("%s is %w: a drill is a load test, and may hurt who did not ask for it; allow it with --allow-remote", ip, ErrNotLoopback)
	}
	a := &address{domain: unix.AF_INET6, ip: netip.AddrPortFrom(ip, uint16(port))}
	if ip.Is4() {
		a.domain = unix.AF_INET
	}
	return a, nil
}

// tlsConfig never resumes a session: each new connection makes the whole handshake.
func (c *Config) tlsConfig(host string) (*tls.Config, error) {
	conf := &tls.Config{ServerName: host, InsecureSkipVerify: c.Insecure, NextProtos: []string{"http/1.1"}}
	if c.HTTP2 {
		conf.NextProtos = []string{"h2"}
	}
	if c.ServerName != "" {
		conf.ServerName = c.ServerName
	}
	if c.CA != "" {
		text, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("read the certificates to trust: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM form", c.CA)
		}
	}
	return conf, nil
}

// sameSocket tells whether a supervisor's socket, as its status names it, is where this URL leads. Of other machines' addresses
// none is: theirs may have the same port.
func (t *target) sameSocket(bound string) bool {
	scheme, rest, ok := strings.Cut(bound, "://")
	if !ok {
		return false
	}
	if t.address.domain == unix.AF_UNIX {
		return strings.HasPrefix(scheme, "unix") && rest == t.address.path
	}
	host, port, err := net.SplitHostPort(rest)
	if err != nil || !strings.HasPrefix(scheme, "tcp") || port != strconv.Itoa(int(t.address.ip.Port())) {
		return false
	}
	to := t.address.ip.Addr()
	ip, err := netip.ParseAddr(host)
	if host == "" || err == nil && ip.IsUnspecified() {
		return to.IsLoopback()
	}
	return err == nil && ip.Unmap() == to
}

// ServedBy tells whether the URL leads to one of these sockets, as a supervisor's status names them. The error is of the URL.
func (c *Config) ServedBy(ctx context.Context, sockets []string) (bool, error) {
	t, err := c.target(ctx)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(sockets, t.sameSocket), nil
}
