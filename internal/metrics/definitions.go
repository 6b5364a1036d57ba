package metrics

// Kind is what Prometheus calls the type of a metric.
type Kind string

const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// A Definition is one metric.
type Definition struct {
	Name   string
	Kind   Kind
	Labels []string
	Help   string // a sentence
}

// Labels.
const (
	bySocket  = "socket"
	byReason  = "reason"
	byOutcome = "outcome"
	byRole    = "role"
	byStep    = "step"
)

// prefix begins the name of every metric.
const prefix = "zddsupervisor_"

// Definitions returns every metric, in the order in which they are explained best.
func Definitions() []Definition {
	return []Definition{
		{prefix + "info", Gauge, []string{"name", "version"}, "The supervisor: its name, and its own version. Always 1."},
		{prefix + "start_time_seconds", Gauge, nil, "When the supervisor was started, as a unix time."},
		{prefix + "status_known", Gauge, nil, "Whether the supervisor has told its status for this scrape: 1, or 0 where it is stopping or too busy, and only what it has counted is there."},
		{prefix + "live", Gauge, nil, "Whether a generation of the service is live: 1 or 0."},
		{prefix + "live_info", Gauge, []string{"release"}, "The release that is live. 1, or not there while nothing is live."},
		{prefix + "live_generation", Gauge, nil, "The number of the live generation; 0 if there is none."},
		{prefix + "live_since_timestamp_seconds", Gauge, nil, "When the live generation became live, as a unix time; not there while nothing is live."},
		{prefix + "generations", Gauge, []string{byRole}, "Generations that have a process, by role: new, live, draining, failed and crashed."},
		{prefix + "generation_connections", Gauge, []string{byRole}, "Open connections to the service's TCP sockets, by the role of the generations that have them. Not there for one whose connections the kernel does not tell."},
		{prefix + "generation_processes", Gauge, []string{byRole}, "Processes of the service, by the role of their generations."},
		{prefix + "generations_ended_total", Counter, []string{byRole}, "Generations of which no process is left, by the role that they ended with: draining is the end of every good one, crashed of one that ended by itself while it was live."},

		{prefix + "handoffs_total", Counter, []string{byOutcome}, "Handoffs that somebody asked for, by outcome: done or failed."},
		{prefix + "starts_total", Counter, []string{byOutcome}, "Starts that nobody asked for, by outcome: the first one, and those after crashes."},
		{prefix + "handoff_duration_seconds", Histogram, []string{byOutcome}, "How long handoffs that somebody asked for have taken, until the new generation was live or given up."},
		{prefix + "handoff_step_duration_seconds", Histogram, []string{byStep}, "How long the steps of handoffs and starts have taken."},
		{prefix + "handoff_began_timestamp_seconds", Gauge, nil, "When the handoff or start that is under way began, as a unix time; not there while none is."},
		{prefix + "last_handoff_failed", Gauge, nil, "Whether the last handoff or start has failed: 1 or 0. It outlives the supervisor."},

		{prefix + "drain_duration_seconds", Histogram, nil, "How long replaced generations have taken to end, from the moment when the next one was live."},
		{prefix + "drains_killed_total", Counter, nil, "Replaced generations that did not end by themselves within their limit, so that what was left of them was killed."},
		{prefix + "killed_processes_total", Counter, []string{byRole}, "Processes of the service that had to be killed, by the role of their generation."},
		{prefix + "unsettled_connections_total", Counter, []string{bySocket}, "Connections that were still on their way to an old generation when it was told to stop all the same, because settle.max was over."},

		{prefix + "socket_queue_length", Gauge, []string{bySocket}, "Connections that wait to be accepted."},
		{prefix + "socket_queue_limit", Gauge, []string{bySocket}, "How many connections may wait to be accepted."},
		{prefix + "socket_connections", Gauge, []string{bySocket}, "Open connections to the socket, for TCP."},
		{prefix + "socket_unread_bytes", Gauge, []string{bySocket}, "Bytes of datagrams that wait to be read."},
		{prefix + "socket_shut_down", Gauge, []string{bySocket}, "Whether a process of the service has shut the socket down, so that nobody can connect: 1 or 0."},
		{prefix + "socket_dropped_packets_total", Counter, []string{bySocket}, "Packets and datagrams that the kernel has thrown away, because a queue was full or a filter said so."},
		{prefix + "socket_forwarded_connections_total", Counter, []string{bySocket}, "Stragglers: connections that a generation which was told to stop did not accept, and that were passed on."},
		{prefix + "socket_lost_connections_total", Counter, []string{bySocket}, "Stragglers that could not be passed on."},
		{prefix + "socket_repairs_total", Counter, []string{bySocket}, "How many times a shared socket that was shut down, or whose path was removed, was put right."},

		{prefix + "carried_connections_total", Counter, nil, "Kept-alive connections that were carried over to a new generation."},
		{prefix + "carried_requests_total", Counter, nil, "Requests on those that were passed on."},
		{prefix + "carried_connections_lost_total", Counter, nil, "Kept-alive connections on which something came that could not be passed on."},
		{prefix + "carried_connections_left_total", Counter, []string{byReason}, "Kept-alive connections that were to be carried over and were left to the old generation, by reason; docs/carry.md has the reasons."},
		{prefix + "carry_given_up", Gauge, nil, "Whether no connections are carried over any more, because the service ends them in a way with which that does not work: 1 or 0. It outlives the supervisor."},
		{prefix + "strays_total", Counter, nil, "Processes of nobody's that were reaped."},
	}
}
