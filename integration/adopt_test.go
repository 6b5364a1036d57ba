package integration_test

import (
	"fmt"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/services"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

const adopted = "\n[[socket]]\nname = \"http\"\nlisten = \"tcp://" + address + "\"\npass = \"adopt\"\n"

// TestAdoptRealServices hands off services that know nothing of passed sockets, under load of new connections: none is lost. A static Go
// program is one of them.
func TestAdoptRealServices(t *testing.T) {
	t.Parallel()
	static := services.Service{
		Name: "go", Load: load.Config{Workers: 2},
		Config: fmt.Sprintf("command = [%q, \"-version={generation}\", \"-serve=http\", \"-bind=%s\"]\n", servicePath, address),
	}
	handOffAll(t, boot(t, rootfs.Trixie()), "adopt", append(services.Binding(), static))
}

// TestBindingServicesOfForky hands off those that Debian 13 does not have, or not in this version.
func TestBindingServicesOfForky(t *testing.T) {
	t.Parallel()
	m := boot(t, rootfs.Forky())
	handOffAll(t, m, "adopt", services.BindingToo())
	handOffAll(t, m, "reuseport", services.ReusePort())
}

// handOffAll hands off services that bind for themselves, one after the other, under load of new connections.
func handOffAll(t *testing.T, m *testMachine, pass string, all []services.Service) {
	t.Helper()
	for _, service := range all {
		for path, content := range service.Files {
			m.write(path, content)
		}
		s := supervise(t, m, fmt.Sprintf("name = \"svc\"\n%s\n[[socket]]\nname = \"http\"\nlisten = \"tcp://%s\"\npass = %q\n", service.Config, address, pass))
		s.must("systemctl", "start", unitName)
		l := s.load(service.Load)
		l.versions(1)
		const handoffs = 2
		for range handoffs {
			l.handoff()
		}
		s.eventually("the last old version is gone", func() bool { return len(s.status().Generations) == 1 })
		result := l.stop()
		judgement := result.Judge(l.handoffs)
		t.Logf("%s, %s, %d handoffs: %s", service.Name, pass, handoffs, judgement)
		if judgement.Verdict != load.Clean {
			t.Errorf("%s, %s: %s\n%s", service.Name, pass, judgement, result)
		}
		if got := s.status().Sockets[0].Mode; got != "steered" {
			t.Errorf("%s: the socket is %s", service.Name, got)
		}
		s.must("systemctl", "stop", unitName)
	}
}

// A supervisor that is killed leaves calls of bind(2) to the next one, by way of systemd's store: a service may bind what it likes at any
// time.
func TestAdoptKilledSupervisor(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, fmt.Sprintf("name = \"svc\"\ncommand = [%q, \"-version=1\", \"-serve=http\", \"-bind=%s\"]\n", servicePath, address)+adopted)
		s.must("systemctl", "start", unitName)
		pid := s.live()
		bind := func(what string) {
			t.Helper()
			if r := s.run("curl", "--fail-with-body", "--silent", "--show-error", "--max-time", "20", "http://"+address+"/bind?address="+what); r.Status != 0 {
				t.Errorf("to bind %s: %s", what, r)
			}
		}
		for range 2 {
			s.must("kill", "-KILL", s.show(unitName, "MainPID"))
			bind("127.0.0.1:0") // there is no supervisor yet, most likely
			s.eventually("another supervisor", func() bool { return s.run(supervisorPath, "status").Status == 0 })
			bind("127.0.0.2:0")
			bind(address) // its own
			if got := s.live(); got != pid {
				t.Fatalf("the service is process %d, and was %d", got, pid)
			}
		}
		if r := s.reload(); r.Status != 0 {
			t.Errorf("reload: %s", r)
		}
	})
}
