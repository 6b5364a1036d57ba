package standalone

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/keptload"
	"github.com/zddsupervisor/zddsupervisor/internal/control"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

const adoptedSocket = steeredSocket + "pass = \"adopt\"\n"

// binding is a configuration with a service that knows nothing of passed sockets, and binds its address itself.
func binding(version string, flags ...string) configuration {
	c := tested(version, append([]string{"-bind=127.0.0.1:0"}, flags...)...)
	c.sockets = adoptedSocket
	return c
}

// A service that binds its own address is handed off without losing one request on a new connection, in one instant, as one that takes
// its socket over: Go's net/http, with no care taken, by itself and with workers that all bind.
func TestAdoptLosesNothing(t *testing.T) {
	passage{service: func(v string) configuration { return binding(v) }, handoffs: *longRun, between: 2000}.mustBeClean(t)
}

func TestAdoptWorkersLoseNothing(t *testing.T) {
	t.Parallel()
	passage{service: func(v string) configuration { return binding(v, "-workers=3") }, handoffs: 10, between: 1000}.mustBeClean(t)
}

func TestAdoptCutoverIsOneInstant(t *testing.T) {
	t.Parallel()
	mixed, failed := mixedHandoffs(t, func(v string) configuration { return binding(v, "-ready-after=30ms") }, 10)
	if len(mixed) > 0 || failed > 0 {
		t.Errorf("the old version answered after the new one: %v; %d requests failed", mixed, failed)
	}
}

// A version that binds something else, or nothing, is not taken for ready, whatever it says; the reason names the socket, and what was
// bound in its stead.
func TestAdoptBadVersions(t *testing.T) {
	t.Parallel()
	const limits = "[ready]\ntimeout = \"2s\"\n"
	s := start(t, binding("v0").with(limits))
	before, descriptors := s.settled(), s.descriptors()
	_, port, _ := net.SplitHostPort(s.address())
	for _, tc := range []struct {
		name    string
		bad     configuration
		reasons []string
	}{
		{"another address", binding("bad", "-bind=127.0.0.2:"+port), []string{"says that it is ready, but it has not bound main (tcp://127.0.0.1:" + port,
			"binds tcp://127.0.0.2:" + port, `write listen = "tcp://127.0.0.2:` + port + `"`}},
		{"another port", binding("bad", "-bind=127.0.0.2:0"), []string{"it has not bound main (tcp://127.0.0.1:" + port, "has to bind the address that listen says"}},
		{"all addresses", binding("bad", "-bind=:"+port), []string{"binds tcp://[::]:" + port, "address already in use", "exit status 4"}},
		{"waits for a descriptor", tested("bad"), []string{"it has not bound main", "exit status 4"}},
		{"exits", binding("bad", "-exit-after=0s", "-exit-status=7"), []string{"exit status 7"}},
		{"is no program", configuration{command: []string{"/no/such/service"}}, []string{"/no/such/service"}},
		{"never ready", binding("bad", "-never-ready"), []string{"READY=1"}},
	} {
		tc.bad.sockets = limits + adoptedSocket
		tc.bad.write(t, s.dir)
		status, _, stderr := s.reload()
		for _, reason := range tc.reasons {
			if status != 1 || !strings.Contains(stderr+s.log.String(), reason) {
				t.Errorf("%s: exit status %d, and %q is not in the reason: %s", tc.name, status, reason, stderr)
			}
		}
		s.only(before)
	}
	if n := s.descriptors(); n > descriptors+1 { // the connection that asks for the status
		t.Errorf("%d descriptors, before it were %d", n, descriptors)
	}
	s.reloadTo(binding("v1").with(limits)).must()
	s.allBy("v1")
}

// What other modes have works with an adopted socket too: it is asked before clients get there, gets a part of them, and is in reach
// of the way back.
func TestAdoptCanaryProbeSoak(t *testing.T) {
	t.Parallel()
	const more = "[ready]\nby = \"http\"\npath = \"/\"\n[probe]\npath = \"/health\"\n"
	with := func(version, handoff string, flags ...string) configuration {
		return binding(version, append(flags, "-never-ready")...).with(more + "[handoff]\n" + handoff)
	}
	s := start(t, with("v0", ""))
	reload := s.reloadTo(with("v1", "canary = \"20%:10m\"\n"))
	s.at(upgrade.Sharing)
	if seen := s.answers(2000); seen["v0"] < 1000 || seen["v1"] < 100 {
		t.Errorf("with 20 percent, %v answered", seen)
	}
	s.promote()
	reload.must()
	s.allBy("v1")
	before := s.settled()

	sick := shortDir(t) + "/health"
	reload = s.reloadTo(with("v2", "soak = \"10m\"\n", "-health-file="+sick))
	s.at(upgrade.Soaking)
	s.allBy("v2")
	if err := os.WriteFile(sick, []byte("500"), 0o600); err != nil {
		t.Fatal(err)
	}
	reload.mustFail("probe", "500")
	s.allBy("v1")
	s.only(before)
}

// Kept-alive connections are carried over from a service that has adopted its socket.
func TestAdoptCarries(t *testing.T) {
	t.Parallel()
	service := func(version string, flags ...string) configuration {
		c := carried(version, append(flags, "-bind=127.0.0.1:0")...)
		c.sockets += "pass = \"adopt\"\n"
		return c
	}
	keptPassage{service: service, load: keptload.Config{Clients: 10}, handoffs: 5}.mustBeClean(t)
}

// A service that took its socket over may bind it from the next version on, and the other way round: it is the same socket.
func TestAdoptAfterInheriting(t *testing.T) {
	t.Parallel()
	s := start(t, tested("v0"))
	client := s.loaded(2)
	for i, c := range []configuration{binding("v1"), binding("v2"), tested("v3"), binding("v4")} {
		s.reloadTo(c).must()
		if err := client.Version(t.Context(), fmt.Sprintf("v%d", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	s.settled()
	mustLoseNothing(t, client)
}

// A crashed service is started again on the socket that it had, in which clients wait.
func TestAdoptCrash(t *testing.T) {
	t.Parallel()
	s := start(t, binding("v0"))
	was := s.settled()
	end(t, was.PID, unix.SIGKILL)
	for range 20 { // none is refused
		if r := s.get("/info"); r.status != http.StatusOK {
			t.Errorf("%+v", r)
		}
	}
	if now := s.settled(); now.Number == was.Number {
		t.Error("it was not started again")
	}
}

// got is the answer to a request.
type got struct {
	status int
	body   string
}

// get asks the service on a new connection.
func (s *supervisor) get(path string) got {
	s.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + s.address() + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return got{answer.StatusCode, string(body)}
}

// Through a replacement of the supervisor a service binds what it likes. If the supervisor is killed, and nobody keeps what it takes, a
// service that runs serves on; what it binds then fails, and nothing hangs; and the next handoff is as any other.
func TestAdoptSurvives(t *testing.T) {
	t.Parallel()
	r := startReign(t, binding("v0"))
	before := r.settled()
	client := r.loaded(2)
	must := func(when string, status int, text string) {
		t.Helper()
		if g := r.get("/bind?address=127.0.0.1:0"); g.status != status || !strings.Contains(g.body, text) {
			t.Errorf("%s, to bind an address gave %+v", when, g)
		}
		if g := r.get("/bind?address=127.0.0.2:0"); g.status != status || !strings.Contains(g.body, text) {
			t.Errorf("%s, to bind another address gave %+v", when, g)
		}
	}
	must("at first", http.StatusOK, "v0")
	for range 2 {
		if _, err := r.client.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		must("after an upgrade", http.StatusOK, "v0")
	}
	address, pid := r.address(), r.status().PID
	end(t, pid, unix.SIGKILL)
	answer, err := http.Get("http://" + address + "/bind?address=127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	if !strings.Contains(string(text), "function not implemented") {
		t.Errorf("without a supervisor, to bind an address gave %s", text)
	}
	r.again()
	r.until("the generation", func(st *control.Status) bool { return live(st) != nil && live(st).PID == before.PID })
	must("without the listener", http.StatusInternalServerError, "function not implemented")
	if !strings.Contains(r.log.String(), "nobody answers calls of bind(2)") {
		t.Error("the log does not say so")
	}
	r.reloadTo(binding("v1")).must()
	r.allBy("v1")
	must("after the next handoff", http.StatusOK, "v1")
	mustLoseNothing(t, client)
}

// On a unix path, which all versions share, nothing is lost that a service finishes. One that removes the path before it binds it, and
// when it stops, gets the socket all the same, and its clients the file; for a moment it is not there.
func TestAdoptUnix(t *testing.T) {
	t.Parallel()
	service := func(path, version string, flags ...string) configuration {
		return configuration{
			command: append([]string{testservice, "-version=" + version, "-serve=finish", "-bind=unix:" + path}, flags...),
			sockets: fmt.Sprintf("[[socket]]\nname = \"main\"\nlisten = \"unix://%s\"\npass = \"adopt\"\n", path),
		}
	}
	path := shortDir(t) + "/s.sock"
	passage{service: func(v string) configuration { return service(path, v) }, network: "unix", handoffs: 10, between: 200}.mustBeClean(t)
	path = shortDir(t) + "/s.sock"
	s := start(t, service(path, "v0", "-unlink-sockets"))
	for _, version := range []string{"v1", "v2"} {
		s.reloadTo(service(path, version, "-unlink-sockets")).must()
		s.settled()
		s.eventually(version+" answers", func() bool {
			c, err := net.Dial("unix", path)
			if err != nil {
				return false
			}
			defer c.Close()
			fmt.Fprint(c, "GET / HTTP/1.0\r\n\r\n")
			answer, err := io.ReadAll(c)
			return err == nil && strings.Contains(string(answer), "X-Version: "+version+"\r\n")
		})
	}
}
