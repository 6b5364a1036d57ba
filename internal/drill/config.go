package drill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
)

// Limits, so that nobody hurts themselves.
const (
	MaxRate      = 5000             // requests a second
	MaxTime      = 15 * time.Minute // of one run
	maxInFlight  = 10_000           // requests under way; each has a socket
	maxKept      = 1000             // kept-alive connections
	maxBody      = 1 << 20          // bytes of an answer that are looked at for the version
	maxTimes     = 1000
	warmUp       = 500 * time.Millisecond // the run's beginning, which counts for neither calm nor disturbed latency
	lookEvery    = 50 * time.Millisecond  // at the supervisor's status while a handoff runs
	reportsEvery = 250 * time.Millisecond // progress
)

// Config says what is sent where, how the service is deployed meanwhile, and how the deploy is seen. URL and Reload must be
// given.
type Config struct {
	// URL is http://, https://, tcp://HOST:PORT or unix:///path. The last two are plain: connect, send, expect.
	URL string
	// Unix is the path or @name of a unix socket that HTTP is spoken on, instead of the URL's host and port.
	Unix string
	// HTTP2 speaks HTTP/2, with TLS or, for http://, with prior knowledge.
	HTTP2 bool
	// AllowRemote allows an address that is not a loopback one.
	AllowRemote bool
	// Insecure does not verify the service's certificate; CA is a PEM file of those that sign it instead of the system's;
	// ServerName is whose it must be instead of the URL's host.
	Insecure       bool
	CA, ServerName string

	// Method is GET, or POST where there is a Body. "{id}" in the path, the body and the header values is the request's id.
	Method string
	Body   []byte
	Header http.Header
	// IDHeader carries each request's unique id; "X-Request-Id" by default.
	IDHeader string
	// Send is sent on a plain connection, with "{id}" as above; Expect is what the answer must contain. Without Expect an
	// accepted connection is enough, or after Send, any answer.
	Send, Expect []byte

	// Rate is how many requests fall due each second, new and kept-alive ones together; 200 by default.
	Rate float64
	// NewOnly and KeptOnly leave out the other half.
	NewOnly, KeptOnly bool
	// Connections is how many kept-alive connections are used in turn; 20 by default. More are opened while all are busy.
	Connections int
	// Timeout bounds one request, from when it is sent; 10 s by default.
	Timeout time.Duration

	// VersionHeader is the answer's header that tells the version; "X-Version" by default. PIDHeader is the one with the pid
	// of the process that answered; "X-Pid" by default. The answers are told apart by both together.
	VersionHeader, PIDHeader string
	// VersionBody is a regular expression whose first group, in the answer's first MiB, is the version.
	VersionBody string
	// Supervisor, if set, is asked for its handoffs.
	Supervisor *control.Client
	// TrustCommand takes a reload command that ends well for a handoff where nothing else tells of one.
	TrustCommand bool

	// Reload deploys, and returns what it said. It is called Times times (1 by default), numbered from 1.
	Reload func(ctx context.Context, n int) (output string, err error)
	Times  int
	// Lead is the calm time before the first reload (5 s by default), Gap the one after each (3 s).
	Lead, Gap time.Duration
	// Settle bounds the wait for old versions to be gone after a reload; 30 s by default. It is waited for where there is a
	// supervisor.
	Settle time.Duration
	// Limit bounds the whole run; 5 minutes by default.
	Limit time.Duration
	// Tolerate is how much longer than calm ones requests may be held in the disturbed time before the run is Masked; 500 ms
	// by default.
	Tolerate time.Duration

	// Executed, if set, returns the ids that the service has executed, one for each execution. It is called once at the end.
	Executed func(ctx context.Context) (ids []string, err error)
	// Progress, if set, is called from time to time while the run goes on, from one goroutine, and must not block for long.
	Progress func(Progress)
}

// prepare fills in defaults and checks what is there.
func (c *Config) prepare() error {
	text := func(s *string, d string) {
		if *s == "" {
			*s = d
		}
	}
	span := func(s *time.Duration, d time.Duration) {
		if *s == 0 {
			*s = d
		}
	}
	text(&c.IDHeader, "X-Request-Id")
	text(&c.VersionHeader, "X-Version")
	text(&c.PIDHeader, "X-Pid")
	span(&c.Timeout, 10*time.Second)
	span(&c.Lead, 5*time.Second)
	span(&c.Gap, 3*time.Second)
	span(&c.Settle, 30*time.Second)
	span(&c.Limit, 5*time.Minute)
	span(&c.Tolerate, 500*time.Millisecond)
	if c.Rate == 0 {
		c.Rate = 200
	}
	if c.Connections == 0 {
		c.Connections = 20
	}
	if c.Times == 0 {
		c.Times = 1
	}
	switch {
	case c.Reload == nil:
		return errors.New("nothing says how to deploy")
	case !(c.Rate >= 1 && c.Rate <= MaxRate): // nor not a number
		return fmt.Errorf("a rate of %g is not between 1 and %d requests a second", c.Rate, MaxRate)
	case c.Times < 1 || c.Times > maxTimes:
		return fmt.Errorf("%d times is not between 1 and %d", c.Times, maxTimes)
	case c.Connections < 1 || c.Connections > maxKept:
		return fmt.Errorf("%d connections is not between 1 and %d", c.Connections, maxKept)
	case c.Limit < 0 || c.Limit > MaxTime:
		return fmt.Errorf("a limit of %s is not between 0 and %s", c.Limit, MaxTime)
	case c.Lead < 0 || c.Gap < 0 || c.Settle < 0 || c.Timeout < 0 || c.Tolerate < 0:
		return errors.New("a time is negative")
	case c.NewOnly && c.KeptOnly:
		return errors.New("without new and without kept-alive connections nothing is left")
	case c.Limit < c.Lead+time.Duration(c.Times)*c.Gap:
		return fmt.Errorf("the calm times alone take %s, and the whole run may take %s: allow more, or ask for fewer handoffs",
			c.Lead+time.Duration(c.Times)*c.Gap, c.Limit)
	}
	for name, values := range c.Header {
		switch http.CanonicalHeaderKey(name) {
		case "Content-Length", "Transfer-Encoding", "Connection", "Expect":
			return fmt.Errorf("the header %s follows from the rest, and cannot be given", name)
		case http.CanonicalHeaderKey(c.IDHeader):
			return fmt.Errorf("the header %s has the request's id, and cannot be given: have the id in another one (--id-header)", name)
		}
		for _, text := range append(values, name) {
			if strings.ContainsAny(text, "\r\n") {
				return fmt.Errorf("the header %q has a line break", name)
			}
		}
	}
	return nil
}

// bodyPattern is VersionBody compiled, or nil.
func (c *Config) bodyPattern() (*regexp.Regexp, error) {
	if c.VersionBody == "" {
		return nil, nil
	}
	re, err := regexp.Compile(c.VersionBody)
	if err != nil {
		return nil, fmt.Errorf("the pattern for the version is not one: %w", err)
	}
	if re.NumSubexp() < 1 {
		return nil, fmt.Errorf("the pattern %q has no group that could be the version", c.VersionBody)
	}
	return re, nil
}
