// Package load sends requests to a service while it is handed from one version to the next, and tells what became of
// each of them.
//
// It is made to see what ordinary clients hide. It works on raw sockets and never retries: one request is one attempt,
// and whatever goes wrong in it is counted by kind ([Refused], [ReadReset], [Closed], ...). Each request normally uses a
// connection of its own, since the handoff of the accept queue is what is judged; with [Config.KeepAlive] each worker
// keeps its connection for as long as the service does. With [Config.Rate] requests fall due at a constant rate
// whatever the service does, and the latency of each counts from when it was due, so that a service that stalls cannot
// slow the client down and thereby look good (no "coordinated omission").
//
// A test that cannot fail proves nothing: [Result.Judge] is [Inconclusive] where no handoff happened, where no request was
// under way during one, or where the client itself could not do its part.
//
// Everything is bounded: [Config.MaxRequests], [Config.Duration], and [Config.Timeout] for one request.
//
// A [Client] owns its workers and their sockets; [Client.Stop] returns only after all of them are gone. A [Remote] is
// the same client in another process, for example in another network namespace; it owns that process.
package load
