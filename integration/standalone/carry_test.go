package standalone

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/keptload"
)

// carrySocket is a socket whose connections can be carried over.
const carrySocket = steeredSocket + "protocol = \"http/1\"\n"

// carried is a service with its kept-alive connections carried over.
func carried(version string, flags ...string) configuration {
	c := tested(version, flags...)
	c.sockets = carrySocket
	return c.with("[handoff]\nkeepalive = \"carry\"\n")
}

// A keptPassage is a load of kept-alive clients through handoffs.
type keptPassage struct {
	service  func(version string, flags ...string) configuration
	flags    []string
	load     keptload.Config // without the address
	handoffs int
}

func (p keptPassage) run(t *testing.T) keptload.Result {
	t.Helper()
	journal := filepath.Join(t.TempDir(), "journal")
	service := func(version string) configuration { return p.service(version, append(p.flags, "-log="+journal)...) }
	s := start(t, service("v0"))
	p.load.Address = s.address()
	l := keptload.Start(p.load)
	defer l.Stop()
	for i := range p.handoffs {
		time.Sleep(100 * time.Millisecond)
		s.reloadTo(service(fmt.Sprintf("v%d", i+1))).must()
	}
	s.settled()
	r := l.Stop()
	st, err := s.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s; %+v", r, st.Carried)
	for line := range strings.Lines(s.log.String()) {
		if _, took, ok := strings.Cut(line, " parked="); ok {
			t.Logf("parked for %s", strings.TrimSpace(took))
		}
	}
	twice, all := keptload.Executed(executed(t, journal))
	if len(twice) > 0 {
		t.Errorf("%d requests were executed twice, or never sent: %v", len(twice), twice[:min(10, len(twice))])
	}
	if all < r.Answered {
		t.Errorf("%d requests were answered, and %d executed", r.Answered, all)
	}
	return r
}

func (p keptPassage) mustBeClean(t *testing.T) {
	t.Helper()
	if r := p.run(t); r.Failed > 0 || r.Answered < p.handoffs*p.load.Clients {
		t.Errorf("%s", r)
	}
}

// Kept-alive clients lose nothing, whatever they do when the versions change; without it some do, so that the same load shows that it
// can.
func TestCarryLosesNothing(t *testing.T) {
	for name, p := range map[string]keptPassage{
		"closed loop": {},
		"pauses":      {load: keptload.Config{Least: time.Millisecond, Most: 50 * time.Millisecond}},
		"bodies":      {load: keptload.Config{Most: 5 * time.Millisecond, MaxBody: 1 << 20}},
		"workers":     {flags: []string{"-workers=3"}},
		"slow":        {flags: []string{"-work=20ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			p.service, p.load.Clients, p.handoffs = carried, 20, 10
			p.mustBeClean(t)
		})
	}
	t.Run("without", func(t *testing.T) {
		r := keptPassage{service: tested, load: keptload.Config{Clients: 20}, handoffs: 10}.run(t)
		if r.Failed == 0 {
			t.Error("nothing failed: this load cannot show that carrying makes a difference")
		}
	})
}
