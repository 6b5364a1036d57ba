package upgrade

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
)

// StatusVersion is the version of Status as JSON. Fields may be added within a version; clients ignore what they do
// not know.
const StatusVersion = 1

// Status is what a supervisor is doing at one moment.
type Status struct {
	Version     int                `json:"version"`
	Phase       string             `json:"phase"` // of the handoff that runs, or "idle", "stop"
	Since       time.Time          `json:"since"` // the supervisor was started
	Generations []GenerationStatus `json:"generations"`
	Sockets     []SocketStatus     `json:"sockets"`
	Handoffs    int                `json:"handoffs"`          // that have begun
	Waiting     bool               `json:"waiting,omitempty"` // one more follows the one that runs
	Current     *Record            `json:"current,omitempty"` // the one that runs
	Last        *Record            `json:"last,omitempty"`    // the last that ended
	Strays      uint64             `json:"strays"`            // processes of nobody's that were reaped
}

// GenerationStatus is one generation.
type GenerationStatus struct {
	Number    int        `json:"number"`
	Release   string     `json:"release,omitempty"`
	Role      Role       `json:"role"`
	PID       int        `json:"pid"`
	Processes int        `json:"processes"` // in its tree; -1 if unknown
	Started   time.Time  `json:"started"`
	Ready     *time.Time `json:"ready,omitempty"`
	Status    string     `json:"status,omitempty"`  // its own words
	Because   string     `json:"because,omitempty"` // why it is being ended
}

// SocketStatus is one socket of the live generation, or of the configuration where none is live.
type SocketStatus struct {
	Name       string      `json:"name"`
	Address    string      `json:"address"`
	Mode       fdpass.Mode `json:"mode"`
	Queue      int         `json:"queue"`       // connections that wait to be accepted; -1 if unknown
	QueueLimit int         `json:"queue_limit"` // how many may; -1 if unknown
	Unread     int         `json:"unread"`      // bytes of datagrams that wait; -1 if unknown
	Error      string      `json:"error,omitempty"`
}

// Status blocks for a moment, and returns ErrStopping once Run is over.
func (s *Supervisor) Status(ctx context.Context) (*Status, error) {
	var st *Status
	var bound []fdpass.Bound
	var generations []*generation
	ok := s.ask(ctx, func() {
		st = &Status{
			Version: StatusVersion, Phase: s.state.Phase.String(), Since: s.began, Handoffs: s.handoffs,
			Waiting: s.state.Again, Last: s.last, Strays: s.opts.Reaper.Strays(),
			Generations: []GenerationStatus{}, Sockets: []SocketStatus{},
		}
		if s.hand != nil {
			r := s.hand.record
			r.Steps, r.By = slices.Clone(r.Steps), slices.Clone(r.By)
			st.Current = &r
		}
		for _, n := range slices.Sorted(maps.Keys(s.generations)) {
			g := s.generations[n]
			st.Generations = append(st.Generations, g.describe())
			generations = append(generations, g)
		}
		bound = s.bound
	})
	if !ok {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, ErrStopping
	}
	// Counting processes and queues asks the kernel, and needs nothing of the owner's.
	for i, g := range generations {
		st.Generations[i].Processes = -1
		if members, err := g.process.Tree().Members(); err == nil {
			st.Generations[i].Processes = len(members)
		}
	}
	for _, b := range bound {
		st.Sockets = append(st.Sockets, describeSocket(b))
	}
	return st, nil
}

func (g *generation) describe() GenerationStatus {
	d := GenerationStatus{
		Number: g.number, Release: g.release, Role: g.role, PID: g.process.Pid(), Started: g.started,
		Status: g.status, Because: g.why,
	}
	if !g.ready.IsZero() {
		ready := g.ready
		d.Ready = &ready
	}
	return d
}

func describeSocket(b fdpass.Bound) SocketStatus {
	d := SocketStatus{Name: b.Spec.FDName(), Address: b.Socket.Addr(), Mode: b.Socket.Mode()}
	stats, err := b.Socket.Stats()
	if err != nil {
		d.Error = err.Error()
	}
	d.Queue, d.QueueLimit, d.Unread = stats.Queue, stats.QueueLimit, stats.Unread
	return d
}
