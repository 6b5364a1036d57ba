// Package doctor looks for what would keep a service from being handed off on this machine: at the kernel, by trying what the
// supervisor will need; at systemd and the unit, as it is in force; and at the configuration, the files it names and the addresses it
// wants. It changes nothing, and needs neither root nor a supervisor that runs. What it could not look at, it says.
package doctor

import (
	"context"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// A Severity says what a finding means for the service.
type Severity string

const (
	Fails  Severity = "fails"  // something will not work
	Warns  Severity = "warns"  // it will work, but not as well as it could, or not always
	Unseen Severity = "unseen" // it could not be looked at
	Fine   Severity = "fine"
)

// A Finding is one thing that was looked at.
type Finding struct {
	About    string   `json:"about"` // kernel, systemd, unit, configuration or sockets
	Severity Severity `json:"severity"`
	What     string   `json:"what"`            // what was seen
	Means    string   `json:"means,omitempty"` // what follows from it; empty where it is fine
	Fix      string   `json:"fix,omitempty"`   // the line, of a shell or of a file, that makes it right
}

// A Subject is what is looked at, beside the machine.
type Subject struct {
	// Unit is the service's unit; nil for none.
	Unit *Unit
	// Source is where its configuration comes from; nil for none.
	Source *config.Source
	// Limits returns the unit that a configuration asks for.
	Limits func(*config.Config) systemd.Unit
	// Uncarried is why the supervisor that runs carries no connections over any more, see control.Status; "" where that is not so or none runs.
	Uncarried string
	// Prepare resolves what a generation is started from, as the supervisor does.
	Prepare func(*config.Config) ([]child.Command, error)
}

// Examine looks at everything that there is. It blocks while it tries what the kernel does, and while systemctl(1) answers.
func Examine(ctx context.Context, s Subject) []Finding {
	m := machine{proc: "/proc"}
	r := report{about: "kernel"}
	m.kernel(&r)
	r.about = "systemd"
	version := manager(ctx, &r)
	if s.Source == nil && s.Unit == nil {
		return r.findings
	}
	var cfg *config.Config
	r.about = "configuration"
	if s.Source != nil {
		cfg = load(&r, s.Source)
	}
	if cfg != nil {
		service(&r, cfg, s.Prepare)
		preset(&r, cfg)
		m.limits(&r, cfg, s.Unit)
		uncarried(&r, cfg, s.Uncarried)
		r.about = "sockets"
		m.sockets(ctx, &r, cfg, s.Unit)
	}
	r.about = "unit"
	if s.Unit == nil && cfg != nil && version > 0 {
		r.add(Warns, "no unit "+cfg.Name+".service runs zddsupervisor", "nobody starts the supervisor at boot, and again if it is killed",
			"zddsupervisor unit --install --config "+s.Source.Path)
	}
	if s.Unit != nil {
		s.Unit.examine(&r, version)
		if cfg != nil {
			s.Unit.examineFor(&r, cfg, s.Limits(cfg))
		}
	}
	return r.findings
}

// Failed reports whether something will not work.
func Failed(findings []Finding) bool {
	for _, f := range findings {
		if f.Severity == Fails {
			return true
		}
	}
	return false
}

// A report collects findings about one thing after the other.
type report struct {
	about    string
	findings []Finding
}

func (r *report) add(severity Severity, what, means, fix string) {
	r.findings = append(r.findings, Finding{About: r.about, Severity: severity, What: what, Means: means, Fix: fix})
}

func (r *report) fine(what string) { r.add(Fine, what, "", "") }

// A machine is where sizes and limits of the kernel are read.
type machine struct {
	proc string // /proc, but in tests
}
