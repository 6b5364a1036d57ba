package load

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Config says what is sent where. Only Address must be given.
type Config struct {
	// Network is "tcp" (the default) or "unix".
	Network string
	// Address is a literal "127.0.0.1:8080" or "[::1]:8080" (no name is ever resolved), or for "unix" a path or an
	// abstract "@name".
	Address string
	// Path is the request's path, "/" by default.
	Path string
	// Body is what each request has in its body, which makes it a POST; "" makes it a GET.
	Body string
	// Greeting is for services that are not HTTP: a request has been answered when the connection has brought a line that this regular
	// expression matches, whose first group is the version. It excludes Body and KeepAlive.
	Greeting string
	// Send is what is sent to such a service first; "" for one that speaks first.
	Send string
	// KeepAlive lets each worker send all its requests on one connection, until the service closes it. An idle
	// connection that the service has closed already when the next request is due is replaced, as any HTTP client
	// does, and counted in [Result.IdleClosed]; one that closes under the request is a failure.
	KeepAlive bool
	// Workers bounds how many requests are under way at once; 20 by default. Without a Rate each worker sends its next
	// request as soon as the last one is answered.
	Workers int
	// Rate is how many requests fall due each second; 0 leaves the pace to the workers.
	Rate float64
	// MaxRequests ends the run; 1,000,000 by default.
	MaxRequests int
	// Duration ends the run; one minute by default.
	Duration time.Duration
	// Timeout bounds each connect, write and read of a request, and thereby the request; 10 s by default. A request
	// takes at most twice as long, however slowly the service drips.
	Timeout time.Duration
	// VersionHeader is the answer's header that tells which version answered; "X-Version" by default.
	VersionHeader string
	// VersionBody is a regular expression for services that cannot set a header: its first group, matched against the
	// answer's body, is the version.
	VersionBody string
	// FirstAnswer, if set, is called once for each version, when its first answer has come. It is called from the
	// workers, one at a time, and holds them up; it must not call the client.
	FirstAnswer func(version string, at time.Time) `json:"-"`
}

const (
	defaultWorkers     = 20
	defaultMaxRequests = 1_000_000
	defaultDuration    = time.Minute
	defaultTimeout     = 10 * time.Second

	// maxWorkers bounds the threads: each worker may block in a system call of its own.
	maxWorkers = 1000
)

// plan is a Config whose defaults are filled in and whose texts are parsed.
type plan struct {
	Config
	domain  int
	addr    func() unix.Sockaddr // a new value for each connect, which writes to it
	request []byte
	body    *regexp.Regexp
	greeted *regexp.Regexp
}

// prepare checks the configuration and fills in its defaults.
func (c Config) prepare() (*plan, error) {
	p := &plan{Config: c}
	if p.Workers == 0 {
		p.Workers = defaultWorkers
	}
	if p.MaxRequests == 0 {
		p.MaxRequests = defaultMaxRequests
	}
	if p.Duration == 0 {
		p.Duration = defaultDuration
	}
	if p.Timeout == 0 {
		p.Timeout = defaultTimeout
	}
	if p.Path == "" {
		p.Path = "/"
	}
	if p.VersionHeader == "" {
		p.VersionHeader = "X-Version"
	}
	switch {
	case p.Workers < 0 || p.Workers > maxWorkers:
		return nil, fmt.Errorf("workers: %d is not between 1 and %d", p.Workers, maxWorkers)
	case p.MaxRequests < 0 || p.Duration < 0 || p.Timeout < 0 || p.Rate < 0:
		return nil, errors.New("a bound of the load is negative")
	case !strings.HasPrefix(p.Path, "/") || strings.ContainsAny(p.Path, " \r\n"):
		return nil, fmt.Errorf("path: %q is not an absolute path without blanks", p.Path)
	}
	var err error
	if p.body, err = group("version body", p.VersionBody); err != nil {
		return nil, err
	}
	if p.greeted, err = group("greeting", p.Greeting); err != nil {
		return nil, err
	}
	if p.greeted != nil && (p.KeepAlive || p.Body != "") {
		return nil, errors.New("greeting: a service that is not HTTP takes no body, and one request on each connection")
	}
	host, err := p.resolve()
	if err != nil {
		return nil, err
	}
	connection := "close"
	if p.KeepAlive {
		connection = "keep-alive"
	}
	method, length := "GET", ""
	if p.Body != "" {
		method, length = "POST", fmt.Sprintf("Content-Type: text/plain\r\nContent-Length: %d\r\n", len(p.Body))
	}
	if p.greeted != nil {
		p.request = []byte(p.Send)
		return p, nil
	}
	p.request = []byte(method + " " + p.Path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: " + connection + "\r\n" + length + "\r\n" + p.Body)
	return p, nil
}

// group compiles a regular expression that must have a group; "" is nil.
func group(what, text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if re.NumSubexp() < 1 {
		return nil, fmt.Errorf("%s: %q has no group", what, text)
	}
	return re, nil
}

// resolve turns the literal address into the kernel's form and returns the value of the Host header.
func (p *plan) resolve() (host string, err error) {
	switch p.Network {
	case "", "tcp":
		ap, err := netip.ParseAddrPort(p.Address)
		if err != nil {
			return "", fmt.Errorf("address: %w", err)
		}
		if addr := ap.Addr().Unmap(); addr.Is4() {
			p.domain = unix.AF_INET
			p.addr = func() unix.Sockaddr { return &unix.SockaddrInet4{Port: int(ap.Port()), Addr: addr.As4()} }
		} else {
			p.domain = unix.AF_INET6
			p.addr = func() unix.Sockaddr { return &unix.SockaddrInet6{Port: int(ap.Port()), Addr: addr.As16()} }
		}
		return p.Address, nil
	case "unix":
		if p.Address == "" {
			return "", errors.New("address: a unix socket needs a path or an @name")
		}
		p.domain = unix.AF_UNIX
		p.addr = func() unix.Sockaddr { return &unix.SockaddrUnix{Name: p.Address} }
		return "localhost", nil
	default:
		return "", fmt.Errorf("network: %q is neither tcp nor unix", p.Network)
	}
}
