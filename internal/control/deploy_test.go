package control

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// What is asked for arrives, and so does the reason why it is refused, word for word.
func TestDeploy(t *testing.T) {
	t.Parallel()
	f := &fakeService{steps: make([]upgrade.Progress, 3), record: &upgrade.Record{Handoff: 3, ToRelease: "v 2&x", Outcome: upgrade.OutcomeDone}}
	client := NewClient(serve(t, f))
	for _, kind := range []upgrade.Kind{upgrade.KindDeploy, upgrade.KindRollback} {
		steps := 0
		r, err := client.Deploy(t.Context(), kind, "v 2&x", true, func(upgrade.Progress) { steps++ })
		if err != nil || r.Handoff != 3 || steps != 3 {
			t.Errorf("%s: %d steps, %+v, %v", kind, steps, r, err)
		}
		want := upgrade.Request{By: fmt.Sprintf("uid %d", os.Getuid()), Kind: kind, Release: "v 2&x", Again: true}
		if got := <-f.asked; got != want {
			t.Errorf("%s: asked was %+v", kind, got)
		}
	}
	if where, err := client.Releases(t.Context()); err != nil || where.Directory != "/srv/releases" || where.Link != "/srv/current" {
		t.Errorf("%+v, %v", where, err)
	}
	if _, err := client.Deploy(t.Context(), upgrade.KindReload, "v2", false, nil); err == nil {
		t.Error("a reload is deployed")
	}
	const reason = "there is no such release: \"v9\"; there are v1, v2"
	f.err = &upgrade.RefusedError{Err: errors.New(reason)}
	var refused *upgrade.RefusedError
	if _, err := client.Deploy(t.Context(), upgrade.KindDeploy, "v9", false, func(upgrade.Progress) {}); !errors.As(err, &refused) || err.Error() != reason {
		t.Errorf("refused: %v", err)
	}
	if _, err := client.Releases(t.Context()); err == nil || err.Error() != reason {
		t.Errorf("refused: %v", err)
	}
	f.err = upgrade.ErrStopping
	if _, err := client.Deploy(t.Context(), upgrade.KindDeploy, "v2", false, func(upgrade.Progress) {}); !errors.Is(err, ErrRefused) || !errors.Is(err, upgrade.ErrStopping) {
		t.Errorf("stopping: %v", err)
	}
}
