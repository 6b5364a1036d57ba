// Package metrics tells Prometheus how a supervisor and its service fare.
//
// What happens once, such as a handoff, is counted when it does: [Metrics] is an upgrade.Observer, and costs the goroutine that
// owns the supervisor's state next to nothing. What is so now, such as a queue, is asked of the supervisor for each scrape, at most
// for a few seconds; if it does not answer, the scrape has the rest.
//
// Counts begin anew with each supervisor, as counters in Prometheus may. Labels are few: the names of sockets and steps, outcomes and
// roles, and of releases only the one that is live.
//
// A [Server] owns its listener, its connections and its goroutine. Nobody is asked for a password: what it tells is for everybody
// who can connect.
package metrics
