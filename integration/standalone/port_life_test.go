package standalone

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// local begins to load the public port from the machine itself.
func (p *place) local(workers int) *remoteLoad {
	p.t.Helper()
	return p.load(p.wire.A, load.Config{Address: "127.0.0.1:" + publicPort, Workers: workers})
}

// count asks n times and returns how often each version has answered.
func (p *place) count(n int) map[string]int {
	p.t.Helper()
	client := p.load(p.wire.A, load.Config{Address: "127.0.0.1:" + publicPort, Workers: 4, MaxRequests: n})
	if err := client.client.Versions(p.t.Context(), n+1); !errors.Is(err, load.ErrEnded) { // there are not as many
		p.t.Fatal(err)
	}
	result := client.stop()
	if result.Failed() > 0 {
		p.t.Errorf("%s", describeLoad(result))
	}
	count := make(map[string]int)
	for _, q := range result.Requests {
		if q.Version >= 0 {
			count[result.Versions[q.Version]]++
		}
	}
	return count
}

// A canary gets its share, and the way back works from there and from the soak.
func TestPortCanaryAndSoak(t *testing.T) {
	t.Parallel()
	const n = 2000
	p := newPlace(t).start(byPort("v0"))
	before := p.settled()
	client := p.local(2)
	client.version("v0")
	reload := p.reloadTo(byPort("v1").with("[handoff]\ncanary = \"25%:10m\"\nsoak = \"10m\"\n"))
	p.at(upgrade.Sharing)
	aboutOf(t, p.count(n)["v1"], n, 0.25)
	p.promote()
	p.at(upgrade.Soaking)
	if got := p.count(100); got["v1"] != 100 {
		t.Errorf("in the soak: %v", got)
	}
	p.abort()
	reload.mustFail("aborted")
	p.only(before)
	if got := p.count(100); got["v0"] != 100 {
		t.Errorf("after the way back: %v", got)
	}
	reload = p.reloadTo(byPort("v2").with("[handoff]\ncanary = \"25%:10m\"\n"))
	p.at(upgrade.Sharing)
	p.abort()
	reload.mustFail("aborted")
	p.only(before)
	if got := p.count(100); got["v0"] != 100 {
		t.Errorf("after the canary was taken back: %v", got)
	}
	if result := client.stop(); result.Failed() > 0 {
		t.Errorf("%s", describeLoad(result))
	}
}

// The live generation is killed: what it had is lost with it, and whoever comes until the next one is there waits.
func TestPortCrash(t *testing.T) {
	t.Parallel()
	p := newPlace(t).start(byPort("v0"))
	for range 3 { // the ports take turns
		client := p.local(8)
		client.version("v0")
		old := p.settled()
		died := kill(t, old.PID)
		p.until("another generation", func(st *control.Status) bool { return live(st) != nil && live(st).Number > old.Number })
		p.settled()
		p.count(10)
		spared(t, client.stop(), died)
	}
}

// Somebody empties the firewall: new connections wait, and the table is made again; those that are open then hang or break off, also in
// their handshake, as the kernel knows nothing of their port any more. Somebody changes the table: that is left alone, and a handoff is refused, with what is wrong and what
// helps; and that does help.
func TestPortFirewallChanged(t *testing.T) {
	t.Parallel()
	const workers, removals = 4, 3
	p := newPlace(t).start(byPort("v0"))
	client := p.load(p.wire.A, load.Config{Address: "127.0.0.1:" + publicPort, Workers: workers, Timeout: 3 * time.Second})
	client.version("v0")
	repaired := func() int {
		return p.until("a socket", func(st *control.Status) bool { return len(st.Sockets) == 1 }).Sockets[0].Repaired
	}
	for i, change := range []string{"flush", "delete"} {
		p.firewall(t, change)
		p.until("the table again", func(st *control.Status) bool { return st.Sockets[0].Repaired == i+1 })
		p.reloadTo(byPort(fmt.Sprintf("v%d", i+1))).must()
		client.version(fmt.Sprintf("v%d", i+1))
	}
	p.firewall(t, "extra")
	before := p.settled()
	p.reloadTo(byPort("v8")).mustFail("somebody has changed the table inet "+firewallTable, "is not one of the supervisor's", "nft delete table inet "+firewallTable)
	p.only(before)
	p.firewall(t, "delete")
	p.until("the table again", func(st *control.Status) bool { return st.Sockets[0].Repaired == 3 })
	p.reloadTo(byPort("v9")).must()
	client.version("v9")
	p.settled()
	result := client.stop()
	if result.Failed() > workers*removals || repaired() != removals {
		t.Errorf("repaired %d times, %s", repaired(), describeLoad(result))
	}
}

// Somebody else has the next private port: nothing is touched.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	p := newPlace(t).start(byPort("v0"))
	before := p.settled()
	squatter := p.wire.A.Command(t.Context(), testservice, "-bind=:18082", "-notify=X=1")
	if err := squatter.Start(); err != nil {
		t.Fatal(err)
	}
	p.until("who takes the port", func(*control.Status) bool {
		return strings.Contains(p.run(p.wire.A, "cat", "/proc/net/tcp6"), fmt.Sprintf(":%04X 0000", 18082))
	})
	p.reloadTo(byPort("v1")).mustFail("private port 18082 is taken already")
	p.only(before)
	p.count(10)
	squatter.Process.Kill()
	squatter.Wait()
	p.reloadTo(byPort("v1")).must()
	if got := p.count(10); got["v1"] != 10 {
		t.Errorf("answers: %v", got)
	}
}

// The supervisor is killed: the service serves on, and the next supervisor reads from the firewall where connections go. When it stops,
// nothing of it is left there.
func TestPortSurvives(t *testing.T) {
	t.Parallel()
	c := byPort("v0")
	p := newPlace(t).start(c)
	c.dir = p.dir
	p.reloadTo(byPort("v1")).must()
	before := p.settled()
	client := p.local(4)
	client.version("v1")
	for i := range 3 {
		end(t, p.pid(), unix.SIGKILL)
		p.count(200)
		c.command = byPort(fmt.Sprintf("v%d", i+2)).command
		p.start(c)
		if now := p.settled(); now.PID != before.PID {
			t.Fatalf("%+v is live, and was %+v", now, before)
		}
		p.mustReload()
		client.version(fmt.Sprintf("v%d", i+2))
		before = p.settled()
	}
	if result := client.stop(); result.Failed() > 0 {
		t.Errorf("%s", describeLoad(result))
	}
	if tables := p.firewall(t, "list"); tables != firewallTable {
		t.Errorf("tables of the firewall: %q", tables)
	}
	p.signal(unix.SIGTERM)
	p.wait()
	if tables := p.firewall(t, "list"); tables != "" {
		t.Errorf("after the stop: tables of the firewall: %q", tables)
	}
}

// Without the right to change the firewall nothing is started, and the message says what is missing.
func TestPortNeedsTheFirewall(t *testing.T) {
	t.Parallel()
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("there is no setpriv")
	}
	p := newPlace(t)
	s := launch(t, byPort("v0"), append(p.wire.A.Wrapper(), setpriv, "--bounding-set=-net_admin", "--inh-caps=-net_admin")...)
	if status := s.wait(); status == 0 {
		t.Error("it has stopped as if nothing was wrong")
	}
	if log := s.log.String(); !strings.Contains(log, "CAP_NET_ADMIN") || strings.Contains(log, "msg=started") {
		t.Errorf("the log:\n%s", log)
	}
}

// A server that knows nothing of all this, which is asked for its health.
func TestPortThirdParty(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		if python, err = exec.LookPath("python3"); err != nil {
			t.Skip("there is no Python")
		}
	}
	root := t.TempDir()
	service := func(version string) configuration {
		dir := filepath.Join(root, version)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "version"), []byte("version "+version+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		c := configuration{command: []string{python, "-m", "http.server", "{port:main}", "--bind", "::", "--directory", dir}, sockets: portSocket}
		return c.with("[ready]\nby = \"http\"\npath = \"/version\"\n")
	}
	p := newPlace(t).start(service("v0"))
	client := p.load(p.wire.A, load.Config{Address: "127.0.0.1:" + publicPort, Workers: 2, Path: "/version", VersionBody: `version (\w+)`})
	client.version("v0")
	intervals := p.handoffs(10, service, client)
	result := client.stop()
	verdict := result.Judge(intervals)
	t.Logf("%s\n%s", describeLoad(result), verdict)
	if verdict.Verdict != load.Clean {
		t.Errorf("%s", verdict)
	}
}
