package upgrade

import "time"

// judge notes whether a generation that has ended by itself was still in its probation, and whether the release before is to
// be started in its place. That happens once: what is started then was not deployed.
func (s *Supervisor) judge(g *generation) {
	p := g.plan
	switch g.kind {
	case KindStart, KindReload, KindDeploy, KindRollback:
	default: // it was started since another one had ended, and says nothing new about its release; or nothing is known
		return
	}
	if lived := time.Since(g.lived); lived > p.Probation {
		return
	}
	g.onProbation = true
	if !p.AutoRollback || g.kind != KindDeploy || p.Releases == nil || s.opts.Good == nil {
		return
	}
	if s.goBack = s.opts.Good(g.release); len(s.goBack) == 0 {
		s.log.Error("a release has ended by itself in its probation, and there is none to go back to", "release", g.release)
		return
	}
	s.log.Error("a release has ended by itself in its probation: going back to the one before", "release", g.release, "to", s.goBack[0])
}

// goBackFor makes a restart one to the release before, if that is due.
func (s *Supervisor) goBackFor(h *handoff) {
	if len(s.goBack) == 0 {
		return
	}
	h.record.Kind, h.record.FromRelease, h.wanted = KindAutoRollback, s.lastRelease, s.goBack
	s.goBack = nil
}
