package upgrade

import (
	"context"
	"log/slog"
	"strings"
	"time"
)

// stepDone is what the log says of a step that has ended well. That a generation is live is said with the end of its handoff.
func stepDone(p Phase) string {
	switch p {
	case Holding:
		return "waited for requests that belong to the same reload"
	case Resolving:
		return "resolved the configuration"
	case Checking:
		return "the check command has succeeded"
	case Opening:
		return "the sockets are open"
	case Starting:
		return "started"
	case Warming:
		return "ready"
	case Probing:
		return "the probe was answered"
	case Sharing:
		return "the canary is over"
	case Cutting:
		return "new connections go to the new generation"
	case Settling:
		return "the old generation is quiet"
	case Soaking:
		return "the soak is over"
	}
	return p.String()
}

// logBegin logs that a handoff has begun.
func (s *Supervisor) logBegin(h *handoff) {
	r := &h.record
	if r.Restart {
		s.log.Info("starting the service", "handoff", r.Handoff, "cause", s.down)
		return
	}
	by := make([]string, 0, len(s.waiting))
	for _, t := range s.waiting {
		by = append(by, t.request.By)
	}
	s.log.Info("handing off", "handoff", r.Handoff, "from", r.From, "from-release", r.FromRelease, "by", strings.Join(by, ", "))
}

// logStep logs a step that has ended well. One that settled without success was told of already, with all that was open.
func (s *Supervisor) logStep(h *handoff, phase Phase, took time.Duration) {
	r, level := &h.record, slog.LevelInfo
	if phase == Settling && len(r.Unsettled) > 0 {
		level = slog.LevelDebug
	}
	log := s.log.With("handoff", r.Handoff)
	if r.To != 0 {
		log = log.With("generation", r.To)
	}
	log = log.With("release", r.ToRelease, "took", took.Round(time.Microsecond).String())
	if phase == Starting {
		log = log.With("pid", h.gen.process.Pid())
	}
	log.Log(context.Background(), level, stepDone(phase))
}
