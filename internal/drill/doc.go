// Package drill loads a service while it is deployed, and judges the deploy by what became of every request.
//
// Requests fall due at a constant rate, whatever the service does (an open loop), half of them on new connections and half
// on kept-alive ones. Each is one attempt: the package works on sockets of its own, resolves a name once, and never sends
// anything twice, which net/http's Client does by itself when a reused connection turns out to be closed. Latency counts
// from when a request was due, so a service that stalls cannot slow the client down and thereby look good.
//
// [Run] runs the load, makes the handoffs meanwhile, and returns a [Report]. When a handoff happened it takes from the
// supervisor's status, else from the answers (a version or a pid that comes or goes), else, if allowed, from the reload
// command's run time. The report's [Verdict] compares the time around the handoffs, the disturbed time, with the rest of
// the same run, the calm time:
//
//   - [Lost]: requests failed.
//   - [Masked]: none failed, but something in between, such as a retrying proxy, sent requests twice or held them: the
//     service executed an id twice, or the disturbed tail stands out as it does then.
//   - [Inconclusive]: the run could not have shown a loss. A check that cannot fail proves nothing.
//   - [Clean]: none of these.
//
// Everything is bounded: rate, time, requests under way, and one request by its timeout. A run owns its goroutines and
// sockets, and all of them are gone when it returns.
package drill
