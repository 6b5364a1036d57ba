package standalone

import (
	"testing"

	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

const reusePortSocket = "[[socket]]\nname = \"main\"\nlisten = \"tcp://:" + publicPort + "\"\npass = \"reuseport\"\n"

// byReusePort is a configuration with the testservice, that listens on the public port itself.
func byReusePort(version string, flags ...string) configuration {
	return configuration{
		command: append([]string{testservice, "-version=" + version, "-serve=http", "-bind=:" + publicPort, "-reuseport"}, flags...), sockets: reusePortSocket,
	}
}

// The service listens with SO_REUSEPORT: nothing fails, and the cutover is one instant.
func TestReusePortLosesNothing(t *testing.T) {
	t.Parallel()
	for name, service := range map[string]func(string) configuration{
		"one socket": func(v string) configuration { return byReusePort(v) },
		"four":       func(v string) configuration { return byReusePort(v, "-reuseport-sockets=4") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t).start(service("v0"))
			loads := map[string]*remoteLoad{
				"many": p.load(p.wire.A, load.Config{Address: "127.0.0.1:" + publicPort, Workers: 8}),
				"one":  p.load(p.wire.A, load.Config{Address: "[::1]:" + publicPort, Workers: 1}),
			}
			var all []*remoteLoad
			for _, l := range loads {
				l.version("v0")
				all = append(all, l)
			}
			intervals := p.handoffs(*longRun, service, all...)
			for kind, l := range loads {
				result := l.stop()
				verdict := result.Judge(intervals)
				t.Logf("%s: %s\n%s", kind, describeLoad(result), verdict)
				if verdict.Verdict != load.Clean {
					t.Errorf("%s: %s", kind, verdict)
				}
				if mixed := oneInstant(result); kind == "one" && len(mixed) > 0 {
					t.Errorf("an older version answered after the versions %v", mixed)
				}
			}
			st := p.until("the status", func(*control.Status) bool { return true })
			t.Logf("%d connections were passed on, %d lost", st.Sockets[0].Forwarded, st.Sockets[0].Lost)
		})
	}
}

// What cannot work is refused, and changes nothing.
func TestReusePortRefuses(t *testing.T) {
	t.Parallel()
	p := newPlace(t).start(byReusePort("v0"))
	client := p.local(4)
	client.version("v0")
	before := p.settled()
	without := byReusePort("bad")
	without.command = []string{testservice, "-version=bad", "-serve=http", "-bind=:" + publicPort}
	p.reloadTo(without).mustFail("does not set SO_REUSEPORT")
	p.only(before)
	narrow := byReusePort("bad")
	narrow.command = []string{testservice, "-version=bad", "-serve=http", "-bind=127.0.0.1:18099"}
	p.reloadTo(narrow).mustFail("nobody listens on")
	p.only(before)
	p.reloadTo(byReusePort("v1")).must()
	client.version("v1")
	p.settled()
	if result := client.stop(); result.Failed() > 0 || len(result.Versions) != 2 {
		t.Errorf("%s, versions %v", describeLoad(result), result.Versions)
	}
}

// The live generation is killed: whoever comes until the next one is there waits.
func TestReusePortCrash(t *testing.T) {
	t.Parallel()
	p := newPlace(t).start(byReusePort("v0"))
	for range 3 {
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

func TestReusePortCanaryAndSoak(t *testing.T) {
	t.Parallel()
	const n = 2000
	service := func(v string) configuration { return byReusePort(v, "-reuseport-sockets=2") }
	p := newPlace(t).start(service("v0"))
	before := p.settled()
	reload := p.reloadTo(service("v1").with("[handoff]\ncanary = \"25%:10m\"\nsoak = \"10m\"\n"))
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
}
