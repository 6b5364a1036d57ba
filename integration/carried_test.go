package integration_test

import (
	"context"
	"flag"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/keptload"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/services"
)

// These make more of TestCarriedServices than what every run has:
//
//	go test ./integration -run TestCarriedServices -v -parallel 1 -timeout 3h -carried.handoffs 100 -carried.clients 50 -carried.body 1048576
var (
	carriedHandoffs = flag.Int("carried.handoffs", 3, "handoffs of each service with carrying; a third as many without")
	carriedClients  = flag.Int("carried.clients", 12, "clients with a kept-alive connection, half of which make pauses")
	carriedBody     = flag.Int("carried.body", 16<<10, "the longest body of a request, in bytes")
)

// TestCarriedServices hands services off under clients that keep their connections, which are carried over, and then without that, so
// that the same load shows what it can lose.
func TestCarriedServices(t *testing.T) {
	t.Parallel()
	var kept, ran int
	var lost atomic.Int64 // with connections that end as the service ends them
	t.Cleanup(func() {
		// One service may be lucky in few handoffs, and not all.
		if ran == kept && !t.Skipped() && lost.Load() == 0 {
			t.Error("inconclusive: nothing was lost without carrying, so this load cannot show that carrying makes a difference")
		}
	})
	for _, service := range services.All() {
		if !service.Keeps {
			continue
		}
		kept++
		t.Run(service.Name, func(t *testing.T) {
			ran++ // one after the other, up to here
			t.Parallel()
			s := superviseReal(t, service, carrying(service, true))
			load := carriedLoad(services.Address)
			load.NoBodies = service.NoBodies
			s.lateBodyStaysOne(t, service)
			s.carriedCleanly(service.Name, carrying(service, true), load)
			without := s.keptThrough(service.Name+", not carried over", carrying(service, false), load, max(1, *carriedHandoffs/3))
			lost.Add(int64(without.Failed))
		})
	}
}

// carriedLoad is the load on an address.
func carriedLoad(address string) keptload.Config {
	return keptload.Config{
		Address: address, Clients: *carriedClients, Closed: *carriedClients / 2,
		Least: time.Millisecond, Most: 50 * time.Millisecond, MaxBody: *carriedBody,
	}
}

// carriedCleanly makes handoffs in which nothing may be lost, and requests have to be passed on.
func (s *supervised) carriedCleanly(what, config string, load keptload.Config) {
	s.t.Helper()
	if r := s.keptThrough(what, config, load, *carriedHandoffs); r.Failed > 0 {
		s.t.Error("requests were lost")
	}
	if c := s.status().Carried; c == nil || c.Relayed == 0 {
		s.t.Errorf("inconclusive: no request was passed on: %+v", c)
	}
}

// carrying is a configuration of the service that has its connections carried over, or not.
func carrying(service services.Service, carry bool) string {
	return service.Configuration(fdpass.Steered, carry)
}

// keptThrough makes handoffs with a configuration under a load of kept-alive clients.
func (s *supervised) keptThrough(what, config string, load keptload.Config, handoffs int) keptload.Result {
	s.t.Helper()
	s.write(configPath, config)
	settled := func() {
		s.t.Helper()
		if r := s.reload(); r.Status != 0 {
			s.t.Fatalf("reload: %s", r)
		}
		s.eventually("the old version is gone", func() bool { return len(s.status().Generations) == 1 })
	}
	settled() // to the new configuration
	s.must("truncate", "--size=0", services.Executed)
	remote := s.keptLoad(load)
	for range handoffs {
		settled()
	}
	result, err := remote.Stop()
	if err != nil {
		s.t.Fatal(err)
	}
	twice, all := keptload.Executed(s.must("cat", services.Executed))
	s.t.Logf("%s, %d handoffs: %s; %d executed, %d of them twice or not sent; %+v in all", what, handoffs, result, all, len(twice), s.status().Carried)
	if len(twice) > 0 || result.Wrong > 0 {
		s.t.Errorf("executed twice: %v; answers to something else: %d", twice[:min(10, len(twice))], result.Wrong)
	}
	if all < result.Answered {
		s.t.Errorf("%d requests were answered, and %d executed", result.Answered, all)
	}
	if result.Answered < handoffs*load.Clients {
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
