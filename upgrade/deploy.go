package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Kind is why there was a handoff.
type Kind string

// The kinds.
const (
	KindStart        Kind = "start"         // the supervisor was started
	KindRestart      Kind = "restart"       // the service had ended by itself
	KindReload       Kind = "reload"        // somebody has asked
	KindDeploy       Kind = "deploy"        // somebody has asked for a release
	KindRollback     Kind = "rollback"      // somebody has asked for one that was live before
	KindAutoRollback Kind = "auto-rollback" // a release that was deployed has ended by itself too soon
)

// deploys reports whether the handoff is to a release that is named, and has to be alone.
func (k Kind) deploys() bool { return k == KindDeploy || k == KindRollback }

// Releases is where the releases of a service lie, one of which is the current one: the next generation runs that. The
// methods block on the file system, but Point only as long as replacing a link takes. An error says in a sentence what is
// wrong and what to do.
type Releases interface {
	// Current returns the name of the current release.
	Current() (string, error)
	// Fit returns an error if a generation cannot be started from a release, as far as that can be seen.
	Fit(release string) error
	// Point makes a release the current one, in one step.
	Point(release string) error
	// Sync blocks until what Point has done is on disk.
	Sync() error
	// Prune removes old releases, but never one of protected, and returns the names of those that it has removed.
	Prune(protected []string) (removed []string, err error)
}

// Errors that tell why a deploy was refused. Nothing was touched then.
var (
	ErrUnmanaged   = errors.New("there is no [releases] in the configuration: set releases.directory and releases.current, then reload")
	ErrUnderWay    = errors.New("a deploy has to be alone")
	ErrAlreadyLive = errors.New("is live already")
	ErrNoneGood    = errors.New("there is no release to go back to")
)

// A RefusedError says why a deploy was not begun. Nothing was touched.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// Deploy asks for a handoff to a release, which becomes the current one for it, and blocks as Reload does. If the handoff
// fails, or the supervisor stops meanwhile, the one that was current before is so again. r.Kind is KindDeploy or
// KindRollback; a rollback to "" goes to the last good release.
//
// The error is *RefusedError if it was not begun: the release is not fit, or is live already, or another handoff is under way,
// or the configuration or the current release cannot be read. Otherwise it is as Reload's.
func (s *Supervisor) Deploy(ctx context.Context, r Request, progress func(Progress)) (*Record, error) {
	if !r.Kind.deploys() {
		return nil, fmt.Errorf("%q is no kind of deploy", r.Kind)
	}
	// What has to be read is read before anything is asked of the owner, and once more in the handoff.
	releases, err := s.MayDeploy(ctx)
	if err != nil {
		return nil, err
	}
	if r.Release == "" {
		if r.Release, err = s.lastGood(ctx, releases); err != nil {
			return nil, err
		}
	}
	if err := releases.Fit(r.Release); err != nil {
		return nil, &RefusedError{err}
	}
	t := &ticket{request: r, steps: make(chan Progress, progressRoom)}
	if !s.ask(ctx, func() { err = s.takeDeploy(t) }) {
		return nil, s.unasked(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s.await(ctx, t, progress)
}

// MayDeploy returns the releases of the configuration as it is now if a deploy could be begun, as far as that can be said
// without a release. The error is as Deploy's. It blocks on the file system.
func (s *Supervisor) MayDeploy(ctx context.Context) (Releases, error) {
	plan, err := s.opts.Load()
	switch {
	case err != nil:
		return nil, &RefusedError{err}
	case plan.Releases == nil:
		return nil, &RefusedError{ErrUnmanaged}
	}
	if _, err := plan.Releases.Current(); err != nil {
		return nil, &RefusedError{err}
	}
	if !s.ask(ctx, func() { err = s.alone() }) {
		return nil, s.unasked(ctx)
	}
	return plan.Releases, err
}

// alone returns an error if a deploy could not begin now.
func (s *Supervisor) alone() error {
	_, action := next(s.state, DeployAsked)
	switch {
	case s.state.Phase == Replacing:
		return ErrReplaced // or will be, and else it may be asked again as well
	case action&Decline != 0, s.hand != nil && !s.hand.record.Restart, slices.ContainsFunc(s.waiting, func(t *ticket) bool { return t.request.Kind.deploys() }):
		return &RefusedError{s.underWay()}
	case action&Refuse != 0:
		return s.unavailable()
	}
	return nil
}

// takeDeploy takes a request to deploy, or returns why not.
func (s *Supervisor) takeDeploy(t *ticket) error {
	if err := s.alone(); err != nil {
		return err
	}
	if !t.request.Again && s.live != nil && s.live.release == t.request.Release {
		return &RefusedError{fmt.Errorf("release %s %w, as generation %d; deploy --again starts it anew", t.request.Release, ErrAlreadyLive, s.live.number)}
	}
	if s.hand != nil { // a start that gets nowhere, see next
		s.hand.aborted = fmt.Sprintf("given up for a %s to release %s", t.request.Kind, t.request.Release)
	}
	s.waiting = append(s.waiting, t)
	s.fire(DeployAsked)
	return nil
}

// underWay says what a deploy would not be alone with.
func (s *Supervisor) underWay() error {
	r := s.hand.record
	what := fmt.Sprintf("%s %d", r.Kind, r.Handoff)
	if r.ToRelease != "" {
		what += " to release " + r.ToRelease
	}
	end := "wait for its end"
	if s.state.Live {
		end += ", or end it with zddsupervisor abort"
	}
	return fmt.Errorf("%w: %s is at step %s; %s", ErrUnderWay, what, s.state.Phase, end)
}

// lastGood returns the release to which a rollback goes that names none.
func (s *Supervisor) lastGood(ctx context.Context, r Releases) (string, error) {
	var from string
	var good []string
	if !s.ask(ctx, func() {
		if from = s.liveRelease(); s.opts.Good != nil {
			good = s.opts.Good(from)
		}
	}) {
		return "", s.unasked(ctx)
	}
	if from == "" { // nothing has served since the start
		from, _ = r.Current()
		good = slices.DeleteFunc(slices.Clone(good), func(release string) bool { return release == from })
	}
	var errs []error
	for _, release := range good {
		err := r.Fit(release)
		if err == nil {
			return release, nil
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return "", &RefusedError{fmt.Errorf("%w: %w; name one that is there: zddsupervisor rollback RELEASE", ErrNoneGood, errs[0])}
	}
	return "", &RefusedError{fmt.Errorf("%w from %s: the history knows of no other that was live and was not given up; name one: zddsupervisor rollback RELEASE",
		ErrNoneGood, cmp.Or(from, "nothing"))}
}

// liveRelease is the release that serves, or that was the last to.
func (s *Supervisor) liveRelease() string {
	if s.live != nil {
		return s.live.release
	}
	return s.lastRelease
}

// A pointing is a change of the current release that is undone if its handoff fails.
type pointing struct {
	releases Releases
	from, to string
}

// point makes the first release that is fit the current one, for a handoff that has just read its plan. It is called by the
// handoff's step. What is changed is written down before: if the supervisor dies, the next one knows what to undo.
func (s *Supervisor) point(h *handoff, plan *Plan, wanted []string) error {
	if plan.Releases == nil {
		return ErrUnmanaged
	}
	from, err := plan.Releases.Current()
	if err != nil {
		return err
	}
	var to string
	for _, to = range wanted {
		if err = plan.Releases.Fit(to); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	if !s.ask(context.Background(), func() {
		h.plan, h.record.ToRelease = plan, to
		if h.record.FromRelease == "" { // nothing serves, and this is what should
			h.record.FromRelease = from
		}
		if h.record.Kind.deploys() { // else there is no way back: the other one has ended
			h.pointed = &pointing{plan.Releases, from, to}
		}
		s.persist()
	}) {
		return s.unavailable()
	}
	if err := plan.Releases.Point(to); err != nil {
		return err
	}
	if err := plan.Releases.Sync(); err != nil {
		return fmt.Errorf("write the link to the current release to disk: %w", err)
	}
	return nil
}

// pointBack makes that release the current one again that was so before a handoff. It may be called again.
func (s *Supervisor) pointBack(h *handoff) {
	p := h.pointed
	if p == nil {
		return
	}
	h.pointed = nil
	now, err := p.releases.Current()
	switch {
	case err == nil && now == p.from:
		return
	case err == nil && now != p.to:
		s.log.Warn("the current release was changed by somebody else, and is left as it is", "release", now)
		return
	}
	if err := p.releases.Point(p.from); err != nil {
		s.log.Error("the current release cannot be changed back", "release", p.from, "now", p.to, "cause", err)
		h.record.Reason += fmt.Sprintf("; and the current release is still %s: %v", p.to, err)
		return
	}
	s.log.Info("the current release is the one before again", "release", p.from, "given up", p.to)
	s.spawn(func() {
		if err := p.releases.Sync(); err != nil {
			s.log.Warn("cannot write the link to the current release to disk", "cause", err)
		}
	})
}

// prune removes old releases behind a handoff that has succeeded, unless that is still being done behind another.
func (s *Supervisor) prune() {
	r := s.plan.Releases
	if r == nil || s.pruning {
		return
	}
	protected := []string{s.live.release}
	for _, g := range s.generations {
		protected = append(protected, g.release)
	}
	var good []string
	if s.opts.Good != nil {
		good = s.opts.Good(s.live.release)
	}
	s.pruning = true
	s.spawn(func() {
		if i := slices.IndexFunc(good, func(release string) bool { return r.Fit(release) == nil }); i >= 0 {
			protected = append(protected, good[i])
		}
		removed, err := r.Prune(protected)
		if err != nil {
			s.log.Warn("cannot remove old releases", "cause", err)
		}
		for _, release := range removed {
			s.log.Info("removed an old release", "release", release)
		}
		s.post(func() { s.pruning = false })
	})
}
