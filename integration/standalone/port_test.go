package standalone

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/link"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

const (
	publicPort = "8080"
	portSocket = "[[socket]]\nname = \"main\"\nlisten = \"tcp://:" + publicPort + "\"\npass = \"port\"\nports = \"18081-18082\"\n"
)

// byPort is a configuration with the testservice, that opens the private port that it is told.
func byPort(version string, flags ...string) configuration {
	return configuration{
		command: append([]string{testservice, "-version=" + version, "-serve=http", "-bind=:{port:main}"}, flags...), sockets: portSocket,
	}
}

// A place is a network namespace with a supervisor in it, and the wire that leads to another one, where clients are.
type place struct {
	t    *testing.T
	wire *link.Link
	*supervisor
}

// newPlace makes the two namespaces.
func newPlace(t *testing.T) *place {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network namespace with an interface needs root")
	}
	wire, err := link.New(link.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wire.Close() })
	return &place{t: t, wire: wire}
}

// start starts a supervisor and waits until its service is live.
func (p *place) start(c configuration) *place {
	p.t.Helper()
	p.supervisor = launch(p.t, c, p.wire.A.Wrapper()...)
	p.until("a live generation", func(st *control.Status) bool { return live(st) != nil && st.Current == nil })
	return p
}

// run runs a command at one end.
func (p *place) run(end *link.End, argv ...string) string {
	p.t.Helper()
	out, err := end.Command(p.t.Context(), argv...).CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %v: %s", argv, err, out)
	}
	return string(out)
}

// load begins to load the service from one end.
func (p *place) load(end *link.End, c load.Config) *remoteLoad {
	p.t.Helper()
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := end.Command(context.Background(), self)
	cmd.Env = append(os.Environ(), loadEnv+"=1")
	cmd.Stderr = os.Stderr
	if c.Duration == 0 {
		c.Duration = 5 * time.Minute
	}
	client, err := load.StartRemote(cmd, c)
	if err != nil {
		p.t.Fatal(err)
	}
	r := &remoteLoad{t: p.t, client: client}
	p.t.Cleanup(func() {
		if !r.stopped {
			_, _ = client.Stop()
		}
	})
	return r
}

// A remoteLoad is a load from another network namespace.
type remoteLoad struct {
	t       *testing.T
	client  *load.Remote
	stopped bool
}

func (r *remoteLoad) version(version string) {
	r.t.Helper()
	if err := r.client.Version(r.t.Context(), version); err != nil {
		r.t.Fatal(err)
	}
}

func (r *remoteLoad) stop() *load.Result {
	r.t.Helper()
	r.stopped = true
	result, err := r.client.Stop()
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

// handoffs hands off n times, under loads that have to see each version.
func (p *place) handoffs(n int, service func(version string) configuration, loads ...*remoteLoad) (intervals []load.Interval) {
	p.t.Helper()
	for i := range n {
		version := fmt.Sprintf("v%d", i+1)
		service(version).write(p.t, p.dir)
		began := time.Now()
		r := p.mustReload()
		if len(r.Unsettled) > 0 {
			p.t.Errorf("handoff %d: %+v", i+1, r.Unsettled)
		}
		intervals = append(intervals, load.Interval{From: began, To: time.Now()})
		for _, l := range loads {
			l.version(version)
		}
	}
	p.settled()
	return intervals
}

// oneInstant returns the versions after whose first answer an older one has answered, as one client saw it.
func oneInstant(result *load.Result) (mixed []int) {
	newest := 0
	for _, q := range result.Requests {
		if q.Version >= 0 && q.Version < newest && !slices.Contains(mixed, newest) {
			mixed = append(mixed, newest)
		}
		newest = max(newest, q.Version)
	}
	return mixed
}

// Each generation has a port of its own, and the firewall redirects: nothing fails, for callers on the machine
// itself, over both families, and on another one, and the cutover is one instant.
func TestPortLosesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t).start(byPort("v0"))
	loads := map[string]*remoteLoad{
		"from another machine": p.load(p.wire.B, load.Config{Address: p.wire.A.Address + ":" + publicPort, Workers: 8}),
		"over IPv4":            p.load(p.wire.A, load.Config{Address: "127.0.0.1:" + publicPort, Workers: 4}),
		"over IPv6":            p.load(p.wire.A, load.Config{Address: "[::1]:" + publicPort, Workers: 1}),
	}
	var all []*remoteLoad
	for _, l := range loads {
		l.version("v0")
		all = append(all, l)
	}
	intervals := p.handoffs(*longRun, func(v string) configuration { return byPort(v) }, all...)
	for name, l := range loads {
		result := l.stop()
		verdict := result.Judge(intervals)
		t.Logf("%s: %s\n%s", name, describeLoad(result), verdict)
		if verdict.Verdict != load.Clean {
			t.Errorf("%s: %s", name, verdict)
		}
		if mixed := oneInstant(result); name == "over IPv6" && len(mixed) > 0 {
			t.Errorf("%s: an older version answered after the versions %v", name, mixed)
		}
	}
	st := p.until("the status", func(*control.Status) bool { return true })
	t.Logf("%d connections were passed on", st.Sockets[0].Forwarded)
	if st.Sockets[0].Lost > 0 {
		t.Errorf("%d connections were lost", st.Sockets[0].Lost)
	}
}

// A bad version changes nothing: not the port, and not who answers.
func TestPortBadVersions(t *testing.T) {
	t.Parallel()
	p := newPlace(t).start(byPort("v0"))
	client := p.load(p.wire.B, load.Config{Address: p.wire.A.Address + ":" + publicPort, Workers: 4})
	client.version("v0")
	for _, bad := range []struct{ flag, more, want string }{
		{"-exit-after=0s", "", "ended"},
		{"-bind=:18099", "", "nobody listens on its port 1808"},
		{"-never-ready", "[ready]\ntimeout = \"300ms\"", "not ready"},
	} {
		byPort("bad", bad.flag).with(bad.more).write(t, p.dir)
		_, err := p.client.Reload(t.Context(), 0, func(upgrade.Progress) {})
		if err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: %v", bad.flag, err)
		}
	}
	byPort("v1").write(t, p.dir)
	p.mustReload()
	client.version("v1")
	result := client.stop()
	if result.Failed() > 0 || len(result.Versions) != 2 {
		t.Errorf("%s, versions %v", describeLoad(result), result.Versions)
	}
}

// Private ports are for nobody but the firewall and this machine.
func TestPrivatePortsAreClosed(t *testing.T) {
	t.Parallel()
	p := newPlace(t).start(byPort("v0"))
	outside := func(port string) error {
		return p.wire.B.Command(t.Context(), "bash", "-c", fmt.Sprintf("exec timeout 1 bash -c ': < /dev/tcp/%s/%s'", p.wire.A.Address, port)).Run()
	}
	if err := outside(publicPort); err != nil {
		t.Errorf("the public port: %v", err)
	}
	for _, port := range []string{"18081", "18082"} {
		if err := outside(port); err == nil {
			t.Errorf("another machine gets to the private port %s", port)
		}
	}
}
