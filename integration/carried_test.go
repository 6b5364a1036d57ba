package integration_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/keptload"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/services"
)

// These make more of TestCarriedServices than what every run has:
//
//	go test ./integration -run TestCarriedServices -v -parallel 1 -timeout 3h -carried.handoffs 100 -carried.clients 50 -carried.body 1048576
var (
	carriedHandoffs = flag.Int("carried.handoffs", 4, "handoffs of each service with carrying; half as many without")
	carriedClients  = flag.Int("carried.clients", 20, "clients with a kept-alive connection, half of which make pauses")
	carriedBody     = flag.Int("carried.body", 16<<10, "the longest body of a request, in bytes")
)

// TestCarriedServices hands services off under clients that keep their connections, which are carried over, and then without that, so
// that the same load shows what it can lose.
func TestCarriedServices(t *testing.T) {
	t.Parallel()
	for _, service := range services.All() {
		if !service.Keeps {
			continue
		}
		t.Run(service.Name, func(t *testing.T) {
			t.Parallel()
			m := boot(t, rootfs.Trixie())
			for path, content := range service.Files {
				m.write(path, content)
			}
			s := supervise(t, m, carrying(service, true))
			s.must("systemctl", "start", unitName)
			with, without := s.carry(service, true, *carriedHandoffs), s.carry(service, false, max(2, *carriedHandoffs/2))
			if with.Failed > 0 {
				t.Error("requests were lost")
			}
			if with.Failed > without.Failed {
				t.Errorf("%d requests were lost with carrying, and %d without", with.Failed, without.Failed)
			}
		})
	}
}

// carrying is a configuration of the service that has its connections carried over, or not.
func carrying(service services.Service, carry bool) string {
	text := fmt.Sprintf("name = \"svc\"\n%s\n[[socket]]\nname = \"http\"\nlisten = \"tcp://%s\"\n", service.Config, services.Address)
	if carry {
		text += "protocol = \"http/1\"\n\n[handoff]\nkeepalive = \"carry\"\n"
	}
	return text
}

// carry makes handoffs of a service under a load of kept-alive clients.
func (s *supervised) carry(service services.Service, carry bool, handoffs int) keptload.Result {
	s.t.Helper()
	s.write(configPath, carrying(service, carry))
	settled := func() {
		s.t.Helper()
		if r := s.reload(); r.Status != 0 {
			s.t.Fatalf("reload: %s", r)
		}
		s.eventually("the old version is gone", func() bool { return len(s.status().Generations) == 1 })
	}
	settled() // to the new configuration
	s.must("truncate", "--size=0", services.Executed)
	before := s.status().Carried
	load := s.keptLoad(keptload.Config{
		Address: services.Address, Clients: *carriedClients, Closed: *carriedClients / 2,
		Least: time.Millisecond, Most: 50 * time.Millisecond, MaxBody: *carriedBody,
	})
	for range handoffs {
		settled()
	}
	result, err := load.Stop()
	if err != nil {
		s.t.Fatal(err)
	}
	twice, all := keptload.Executed(s.must("cat", services.Executed))
	s.t.Logf("%s, carry %t, %d handoffs: %s; %d executed, %d of them twice or not sent\n%+v before, and %+v now",
		service.Name, carry, handoffs, result, all, len(twice), before, s.status().Carried)
	if len(twice) > 0 || result.Wrong > 0 {
		s.t.Errorf("executed twice: %v; answers to something else: %d", twice[:min(10, len(twice))], result.Wrong)
	}
	if result.Answered < handoffs*(*carriedClients) {
		s.t.Errorf("inconclusive: there were only %d answers", result.Answered)
	}
	return result
}

// keptLoad starts a load in the machine's network, which the test has to stop.
func (s *supervised) keptLoad(c keptload.Config) *keptload.Remote {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := s.NetworkCommand(context.Background(), self)
	cmd.Env = append(os.Environ(), keptLoadEnv+"=1")
	cmd.Stderr = os.Stderr
	remote, err := keptload.StartRemote(cmd, c)
	if err != nil {
		s.t.Fatal(err)
	}
	return remote
}
