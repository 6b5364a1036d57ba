package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// A Deployer is the part of a Service that has to do with releases.
type Deployer interface {
	Deploy(ctx context.Context, r upgrade.Request, progress func(upgrade.Progress)) (*upgrade.Record, error)
	// Releases tells where they lie, or with an *upgrade.RefusedError why none can be deployed now.
	Releases(ctx context.Context) (*Releases, error)
}

// Releases is the answer to GET /v1/releases.
type Releases struct {
	Directory string `json:"directory"` // has a directory for each release
	Link      string `json:"link"`      // the symbolic link to the current one
}

func (s *Server) deploy(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	request := upgrade.Request{By: by(r), Kind: upgrade.Kind(query.Get("kind")), Release: query.Get("release"), Again: query.Get("again") == "true"}
	if request.Kind != upgrade.KindDeploy && request.Kind != upgrade.KindRollback {
		http.Error(w, "kind is neither deploy nor rollback", http.StatusBadRequest)
		return
	}
	s.stream(w, func(progress func(upgrade.Progress)) (*upgrade.Record, error) {
		return s.service.Deploy(r.Context(), request, progress)
	})
}

func (s *Server) releases(w http.ResponseWriter, r *http.Request) {
	where, err := s.service.Releases(r.Context())
	var refused *upgrade.RefusedError
	switch {
	case errors.As(err, &refused):
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(where); err != nil {
		s.log.Debug("a client of the control socket has gone", "cause", err)
	}
}

// Deploy asks for a handoff to a release and blocks as Reload does. kind is upgrade.KindDeploy or KindRollback; a rollback
// to "" goes to the last good release; again deploys one that is live as well. The error is *upgrade.RefusedError if nothing was
// begun, in the supervisor's words, and otherwise as Reload's.
func (c *Client) Deploy(ctx context.Context, kind upgrade.Kind, release string, again bool, progress func(upgrade.Progress)) (*upgrade.Record, error) {
	query := url.Values{"kind": {string(kind)}, "release": {release}, "again": {strconv.FormatBool(again)}}
	return c.handoff(ctx, "/v1/deploy?"+query.Encode(), progress)
}

// Releases asks where the releases lie. If none can be deployed now, the error says why, in the supervisor's words.
func (c *Client) Releases(ctx context.Context) (*Releases, error) {
	body, err := c.do(ctx, http.MethodGet, "/v1/releases")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	where := new(Releases)
	if err := json.NewDecoder(body).Decode(where); err != nil {
		return nil, fmt.Errorf("%w any more on %s: it went away before it had answered", ErrNotRunning, c.path)
	}
	return where, nil
}
