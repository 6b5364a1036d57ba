package upgrade

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
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
	Step        *StepStatus        `json:"step,omitempty"`    // its step
	// Down is why no generation is live, and Retry when the service is started again; both only where it is so.
	Down   string     `json:"down,omitempty"`
	Retry  *time.Time `json:"retry,omitempty"`
	Last   *Record    `json:"last,omitempty"` // the last that ended
	Strays uint64     `json:"strays"`         // processes of nobody's that were reaped
	// Carried is what became of the kept-alive connections of all generations that were replaced; nil if there were none.
	Carried *Carried `json:"carried,omitempty"`
	// Uncarried is why none are carried over any more, although they are to be: what the service does instead; "" where they are.
	Uncarried string `json:"uncarried,omitempty"`
}

// StepStatus is the step of a handoff that runs. Status.Phase has its name.
type StepStatus struct {
	Began time.Time `json:"began"`
	Waits string    `json:"waits"` // what it waits for
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
	Live        *time.Time `json:"live,omitempty"`    // when it became live
	Status      string     `json:"status,omitempty"`  // its own words
	Because     string     `json:"because,omitempty"` // why it is being ended
	// Ending is how far that is; nil for one that is not being ended.
	Ending *EndingStatus `json:"ending,omitempty"`
	// Deaf are the sockets by which nobody gets to it any more, because a process has shut them down; it is replaced as soon as possible.
	Deaf []string `json:"deaf,omitempty"`
}

// EndingStatus is how far the end of a generation is.
type EndingStatus struct {
	Began time.Time `json:"began"`
	Told  bool      `json:"told"` // its stop signal was sent
	// Limit is when what is left of it is killed. It moves when its stop signal is sent, and when it asks for more time.
	Limit time.Time `json:"limit"`
}

// SocketStatus is one socket of the live generation, or of the configuration where none is live.
type SocketStatus struct {
	Name       string      `json:"name"`
	Address    string      `json:"address"`
	Mode       fdpass.Mode `json:"mode"`
	Queue      int         `json:"queue"`       // connections that wait to be accepted; -1 if unknown
	QueueLimit int         `json:"queue_limit"` // how many may; -1 if unknown
	Unread     int         `json:"unread"`      // bytes of datagrams that wait; -1 if unknown
	// Connections is how many open connections to it the generations have; -1 if unknown, as for all but TCP.
	Connections int    `json:"connections"`
	Dropped     int    `json:"dropped"` // packets or datagrams that the kernel has thrown away; -1 if unknown
	Error       string `json:"error,omitempty"`
	// ShutDown says that nobody can connect any more, since a process of the service has called shutdown(2) on it.
	ShutDown bool `json:"shut_down,omitempty"`

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
			if s.step != nil {
				st.Step = &StepStatus{s.step.began, s.step.waits}
			}
		}
		if s.live == nil && s.state.Phase < Stopping {
			st.Down = s.down
			if at := s.restarts.at; !at.IsZero() && s.hand == nil {
				st.Retry = &at
			}
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
	if !g.lived.IsZero() {
		lived := g.lived
		d.Live = &lived
	}
	if g.ending {
		d.Ending = &EndingStatus{g.endBegan, g.wasTold(), g.endLimit.when()}
	}
	return d
}

func describeSocket(b fdpass.Bound, generations []*generation, counts connectionCount) SocketStatus {
	d := SocketStatus{Name: b.Spec.FDName(), Address: b.Socket.Addr(), Mode: b.Socket.Mode(), Connections: Unknown}
	if strings.HasPrefix(d.Address, "tcp") {
		d.Connections = counts.all(b.Socket, generations)
	}
	stats, err := b.Socket.Stats()
	d.Queue, d.QueueLimit, d.Unread = stats.Queue, stats.QueueLimit, stats.Unread
	d.Forwarded, d.Lost, d.Repaired, d.Dropped, d.ShutDown = stats.Forwarded, stats.Lost, stats.Repaired, stats.Dropped, stats.ShutDown
	seats, seatsErr := b.Socket.Seats()
	if err = cmp.Or(err, seatsErr); err != nil {
		d.Error = err.Error()
	}
	for _, seat := range seats {
		holder, connections := 0, 0 // one that is gone has left it to the next
		for _, g := range generations {
			if g.number == seat.Generation {
				holder, connections = g.number, counts.on(g, b.Socket)
			}
		}
		d.Seats = append(d.Seats, SeatStatus{holder, seat.Share, seat.Queue, connections})
	}
	return d
}
