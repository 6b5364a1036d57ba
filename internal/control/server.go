package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// SocketName is the name of the control socket in the runtime directory.
const SocketName = "control.sock"

// Service is what a Server makes reachable: an *upgrade.Supervisor, in a process that can be replaced.
type Service interface {
	Reload(ctx context.Context, r upgrade.Request, progress func(upgrade.Progress)) (*upgrade.Record, error)
	Ask(r upgrade.Request) error
	Promote(ctx context.Context, by string) (*upgrade.Record, error)
	Abort(ctx context.Context, by string) (*upgrade.Record, error)
	Status(ctx context.Context) (*upgrade.Status, error)
	Deployer

	// Upgrade has another supervisor follow this one, and returns that one's process number.
	Upgrade(ctx context.Context, by string) (pid int, err error)
}

// Identity is what a supervisor says about itself.
type Identity struct {
	Name    string `json:"name"`
	PID     int    `json:"pid"`
	Program string `json:"program"` // the supervisor's own version

	StateDirectory string `json:"state_directory,omitempty"` // has its history
}

// Status is the answer to GET /v1/status.
type Status struct {
	Identity
	*upgrade.Status
}

// An Event is a line of the answer to POST /v1/reload and /v1/deploy.
type Event struct {
	Progress *upgrade.Progress `json:"progress,omitempty"` // of a step that has ended, or has a note
	// Begun is of a step that has begun or goes on. It has a name of its own, so that clients which do not know it do not take
	// such a step for one that has ended.
	Begun   *upgrade.Progress `json:"begun,omitempty"`
	Result  *upgrade.Record   `json:"result,omitempty"`
	Error   string            `json:"error,omitempty"`   // there is no result: the supervisor is stopping, for instance
	Refused string            `json:"refused,omitempty"` // there is no result: nothing was begun, for this reason
}

// Successor is the answer to POST /v1/upgrade.
type Successor struct {
	Was int `json:"was"` // the process number of the supervisor that was replaced
	PID int `json:"pid"` // of the one that has the service now
}

// A Server answers on a control socket until Close.
type Server struct {
	identity Identity
	service  Service
	log      *slog.Logger
	http     *http.Server
	mux      *http.ServeMux
	listener *Listener
	serving  sync.WaitGroup
}

// NewServer returns a server that does nothing until Serve is called.
func NewServer(identity Identity, service Service, log *slog.Logger) *Server {
	mux := http.NewServeMux()
	s := &Server{identity: identity, service: service, log: log, mux: mux}
	mux.HandleFunc("GET /v1/status", s.status)
	mux.HandleFunc("POST /v1/reload", s.reload)
	mux.HandleFunc("POST /v1/deploy", s.deploy)
	mux.HandleFunc("GET /v1/releases", s.releases)
	mux.HandleFunc("POST /v1/promote", s.steer(service.Promote))
	mux.HandleFunc("POST /v1/abort", s.steer(service.Abort))
	mux.HandleFunc("POST /v1/upgrade", s.upgrade)
	s.http = &http.Server{
		Handler:           authorize(withoutBody(mux)),
		ConnContext:       withPeer,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return s
}

// Handle has a handler answer requests of a pattern (see http.ServeMux) of those who may control the supervisor. It is for the time
// before Serve.
func (s *Server) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// Serve answers on a listener, which it takes, and tends, in goroutines that Close waits for.
func (s *Server) Serve(l *Listener) {
	s.listener = l
	l.Tend(s.log)
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			s.log.Error("the control socket does not answer any more", "cause", err)
		}
	}()
}

// Pause closes the listener, and leaves the socket's file: who connects from now on waits for another process that has the
// socket, or for Serve. It blocks until every connection that was accepted is known to Close.
func (s *Server) Pause() {
	s.listener.Leave()
	s.listener.Close() // an error would be that it is closed
	s.serving.Wait()
}

// Close gives answers that are under way a moment to get through, then ends every connection, and returns when none is
// left. The socket's file is removed.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	s.serving.Wait()
	return err
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	st, err := s.service.Status(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(Status{s.identity, st}); err != nil {
		s.log.Debug("a client of the control socket has gone", "cause", err)
	}
}

func (s *Server) reload(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	request := upgrade.Request{By: by(r)}
	if since := query.Get("since"); since != "" {
		var err error
		if request.Since, err = strconv.ParseUint(since, 10, 64); err != nil {
			http.Error(w, "since is not a number", http.StatusBadRequest)
			return
		}
	}
	if query.Get("wait") == "false" {
		if err := s.service.Ask(request); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.stream(w, func(progress func(upgrade.Progress)) (*upgrade.Record, error) {
		return s.service.Reload(r.Context(), request, progress)
	})
}

// stream answers with the events of a handoff.
func (s *Server) stream(w http.ResponseWriter, handoff func(progress func(upgrade.Progress)) (*upgrade.Record, error)) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	flush.Flush()
	encoder := json.NewEncoder(w)
	send := func(e Event) {
		if err := encoder.Encode(e); err != nil {
			s.log.Debug("a client of the control socket has gone", "cause", err)
		}
		flush.Flush()
	}
	record, err := handoff(func(p upgrade.Progress) {
		if p.Waits != "" {
			send(Event{Begun: &p})
			return
		}
		send(Event{Progress: &p})
	})
	var failed *upgrade.HandoffError
	var refused *upgrade.RefusedError
	switch {
	case errors.As(err, &refused):
		send(Event{Refused: refused.Error()})
	case errors.As(err, &failed):
		send(Event{Result: &failed.Record})
	case err != nil:
		send(Event{Error: err.Error()})
	default:
		send(Event{Result: record})
	}
}

// steer answers a request about the handoff that is under way with the handoff's record.
func (s *Server) steer(do func(ctx context.Context, by string) (*upgrade.Record, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		record, err := do(r.Context(), by(r))
		switch {
		case errors.Is(err, upgrade.ErrNothingToPromote), errors.Is(err, upgrade.ErrNothingToAbort):
			http.Error(w, err.Error(), http.StatusConflict)
			return
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(record); err != nil {
			s.log.Debug("a client of the control socket has gone", "cause", err)
		}
	}
}

// upgrade answers with a Successor, or why there is none.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) {
	pid, err := s.service.Upgrade(r.Context(), by(r))
	switch {
	case errors.Is(err, upgrade.ErrReplaced), errors.Is(err, upgrade.ErrStopping):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(Successor{s.identity.PID, pid}); err != nil {
		s.log.Debug("a client of the control socket has gone", "cause", err)
	}
}

// by says who asks.
func by(r *http.Request) string { return fmt.Sprintf("uid %d", peerOf(r.Context()).uid) }
