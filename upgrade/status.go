package upgrade

import (
	"cmp"
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
	Note        string             `json:"note,omitempty"`    // what its step is doing, where there is more to say
	Last        *Record            `json:"last,omitempty"`    // the last that ended
	Strays      uint64             `json:"strays"`            // processes of nobody's that were reaped
	// Carried is what became of the kept-alive connections of all generations that were replaced; nil if there were none.
	Carried *Carried `json:"carried,omitempty"`
}

// GenerationStatus is one generation.
type GenerationStatus struct {
	Number    int    `json:"number"`
	Release   string `json:"release,omitempty"`
	Role      Role   `json:"role"`
	PID       int    `json:"pid"`
	Processes int    `json:"processes"` // in its tree; -1 if unknown
	// Connections is how many connections to the sockets it has open; -1 if unknown.
	Connections int        `json:"connections"`
	Started     time.Time  `json:"started"`
	Ready       *time.Time `json:"ready,omitempty"`
	Status      string     `json:"status,omitempty"`  // its own words
	Because     string     `json:"because,omitempty"` // why it is being ended
	// Deaf are the sockets by which nobody gets to it any more, because a process has shut them down; it is replaced as soon as possible.
	Deaf []string `json:"deaf,omitempty"`
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

	// Seats are the generations that have a socket of their own on this address, in steered mode.
	Seats []SeatStatus `json:"seats,omitempty"`
	// Forwarded is how many connections a generation that was told to stop did not accept, so that they were passed on,
	// and Lost how many of those could not be.
	Forwarded int `json:"forwarded"`
	Lost      int `json:"lost"`
	// Repaired is how many times a process of the service had shut the socket down, or its path was removed, and it was put
	// right.
	Repaired int `json:"repaired,omitempty"`
}

// SeatStatus is one generation's part in a steered socket.
type SeatStatus struct {
	Generation  int     `json:"generation"`  // 0 for a socket that none has now
	Share       float64 `json:"share"`       // of new connections, of 1
	Queue       int     `json:"queue"`       // connections that wait to be accepted
	Connections int     `json:"connections"` // that it has open; -1 if unknown
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
		s.carryCounts(st)
		if s.hand != nil {
			r := s.hand.record
			r.Steps, r.By = slices.Clone(r.Steps), slices.Clone(r.By)
			st.Current, st.Note = &r, s.hand.note
		}
		for _, n := range slices.Sorted(maps.Keys(s.generations)) {
			g := s.generations[n]
			st.Generations = append(st.Generations, g.describe())
			generations = append(generations, g)
		}
		bound = s.bound
		if s.hand != nil {
			bound = append(slices.Clone(bound), s.hand.fresh...)
		}
	})
	if !ok {
		return nil, s.unasked(ctx)
	}
	// Counting asks the kernel, and needs nothing of the owner's.
	counts := connections(bound, generations)
	for i, g := range generations {
		st.Generations[i].Connections, st.Generations[i].Processes = counts.of(g), Unknown
		if members, err := g.process.Tree().Members(); err == nil {
			st.Generations[i].Processes = len(members)
		}
	}
	for _, b := range bound {
		st.Sockets = append(st.Sockets, describeSocket(b, generations, counts))
	}
	return st, nil
}

func (g *generation) describe() GenerationStatus {
	d := GenerationStatus{
		Number: g.number, Release: g.release, Role: g.role, PID: g.process.Pid(), Started: g.started,
		Status: g.status, Because: g.why, Deaf: g.deaf,
	}
	if !g.ready.IsZero() {
		ready := g.ready
		d.Ready = &ready
	}
	return d
}

func describeSocket(b fdpass.Bound, generations []*generation, counts connectionCount) SocketStatus {
	d := SocketStatus{Name: b.Spec.FDName(), Address: b.Socket.Addr(), Mode: b.Socket.Mode()}
	stats, err := b.Socket.Stats()
	d.Queue, d.QueueLimit, d.Unread = stats.Queue, stats.QueueLimit, stats.Unread
	d.Forwarded, d.Lost, d.Repaired = stats.Forwarded, stats.Lost, stats.Repaired
	seats, seatsErr := b.Socket.Seats()
	if err = cmp.Or(err, seatsErr); err != nil {
		d.Error = err.Error()
	}
	for _, seat := range seats {
		connections := 0
		for _, g := range generations {
			if g.number == seat.Generation {
				connections = counts.on(g, b.Socket)
			}
		}
		d.Seats = append(d.Seats, SeatStatus{seat.Generation, seat.Share, seat.Queue, connections})
	}
	return d
}
