package upgrade_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// shelf is releases that exist in memory alone.
type shelf struct {
	mu      sync.Mutex
	current string
	all     []string
	broken  error         // of Point
	at      chan struct{} // closed when Point is called; nil for not at all
	hold    chan struct{} // Point waits for it
	pruned  [][]string    // what was protected
}

func (s *shelf) Current() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, nil
}

func (s *shelf) Fit(release string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.all, release) {
		return fmt.Errorf("there is no %q", release)
	}
	return nil
}

func (s *shelf) Point(release string) error {
	s.mu.Lock()
	at, hold := s.at, s.hold
	s.at, s.hold = nil, nil
	s.mu.Unlock()
	if at != nil {
		close(at)
		<-hold
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	s.current = release
	return nil
}

func (s *shelf) Sync() error { return nil }

func (s *shelf) Prune(protected []string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pruned = append(s.pruned, protected)
	return nil, nil
}

// on puts a plan's releases on the shelf: a generation's release is the one that is current.
func (s *shelf) on(p *upgrade.Plan) {
	prepare := p.Prepare
	p.Releases = s
	p.Prepare = func(generation int) (*upgrade.Prepared, error) {
		prepared, err := prepare(generation)
		if err == nil {
			prepared.Release, err = s.Current()
		}
		return prepared, err
	}
}

func (s *supervisor) deploy(release string) (*upgrade.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return s.Deploy(ctx, upgrade.Request{By: "test", Kind: upgrade.KindDeploy, Release: release}, nil)
}

func TestDeployRefusals(t *testing.T) {
	t.Parallel()
	plain := start(t, "good", nil, nil)
	plain.live()
	if _, err := plain.deploy("b"); !errors.Is(err, upgrade.ErrUnmanaged) {
		t.Errorf("without releases: %v", err)
	}
	here := &shelf{current: "a", all: []string{"a", "b", "c"}}
	s := start(t, "good", nil, here.on)
	s.live()
	var refused *upgrade.RefusedError
	if _, err := s.deploy("a"); !errors.As(err, &refused) || !errors.Is(err, upgrade.ErrAlreadyLive) {
		t.Errorf("the live one: %v", err)
	}
	if _, err := s.deploy("x"); !errors.As(err, &refused) {
		t.Errorf("one that is not there: %v", err)
	}
	if _, err := s.Deploy(t.Context(), upgrade.Request{Kind: upgrade.KindRollback}, nil); !errors.Is(err, upgrade.ErrNoneGood) {
		t.Errorf("nothing to go back to: %v", err)
	}
	if _, err := s.Deploy(t.Context(), upgrade.Request{Kind: upgrade.KindReload, Release: "b"}, nil); err == nil {
		t.Error("a reload is no deploy")
	}
	here.mu.Lock()
	here.at, here.hold = make(chan struct{}), make(chan struct{})
	at, hold := here.at, here.hold
	here.mu.Unlock()
	first := make(chan error, 1)
	go func() {
		_, err := s.deploy("b")
		first <- err
	}()
	<-at
	if _, err := s.deploy("c"); !errors.As(err, &refused) || !errors.Is(err, upgrade.ErrUnderWay) || !strings.Contains(err.Error(), "deploy 2 to release b is at step resolve") {
		t.Errorf("a second one: %v", err)
	}
	close(hold)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if now, _ := here.Current(); now != "b" {
		t.Errorf("current is %s", now)
	}
}

// A stop that comes just while the release is changed has it changed back all the same.
func TestStopWhilePointing(t *testing.T) {
	t.Parallel()
	here := &shelf{current: "a", all: []string{"a", "b"}}
	s := start(t, "good", nil, here.on)
	s.live()
	here.mu.Lock()
	here.at, here.hold = make(chan struct{}), make(chan struct{})
	at, hold := here.at, here.hold
	here.mu.Unlock()
	deployed := make(chan error, 1)
	go func() {
		_, err := s.deploy("b")
		deployed <- err
	}()
	<-at
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := <-deployed; !errors.Is(err, upgrade.ErrStopping) {
		t.Errorf("the deploy: %v", err)
	}
	close(hold)
	err := <-s.ended
	s.ended <- err
	if now, _ := here.Current(); err != nil || now != "a" {
		t.Errorf("current is %s, %v", now, err)
	}
}

// A deploy whose change cannot be undone says so.
func TestPointBackFails(t *testing.T) {
	t.Parallel()
	here := &shelf{current: "a", all: []string{"a", "b"}}
	s := start(t, "good", nil, here.on)
	s.live()
	s.mu.Lock()
	s.load = func() error { return nil }
	s.mu.Unlock()
	s.become("mute")
	deployed := make(chan error, 1)
	go func() {
		_, err := s.deploy("b")
		deployed <- err
	}()
	s.until("ready", func(st *upgrade.Status) bool { return st.Phase == upgrade.Warming.String() })
	here.mu.Lock()
	here.broken = errors.New("the disk is full")
	here.mu.Unlock()
	if _, err := s.Abort(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	if err := <-deployed; err == nil || !strings.Contains(err.Error(), "aborted by test; and the current release is still b: the disk is full") {
		t.Errorf("the deploy: %v", err)
	}
}

// What must not be removed is what runs, and the one to go back to.
func TestPruneProtects(t *testing.T) {
	t.Parallel()
	here := &shelf{current: "a", all: []string{"a", "b", "c"}}
	s := start(t, "good", func(o *upgrade.Options) {
		o.Good = func(string) []string { return []string{"gone", "c", "a"} }
	}, here.on)
	s.live()
	s.until("pruned behind the start", func(*upgrade.Status) bool { return len(here.protected()) > 0 })
	if _, err := s.deploy("b"); err != nil {
		t.Fatal(err)
	}
	s.until("pruned behind the deploy", func(*upgrade.Status) bool { return slices.Contains(here.protected(), "b") })
	if last := here.protected(); !slices.Contains(last, "c") || slices.Contains(last, "gone") {
		t.Errorf("protected are %q", last)
	}
}

// protected is what the last call of Prune was told to protect.
func (s *shelf) protected() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pruned) == 0 {
		return nil
	}
	return s.pruned[len(s.pruned)-1]
}
