// Package keptload is a load of clients that keep their connections to a service through its handoffs, and never send anything twice. Every
// request has a number and, if wanted, a body, and the answer has to tell the number and what came of the body (X-Id, X-Body), so that an answer to
// another request shows, and one to half a body. What the service writes down shows which requests it has executed twice.
//
// A [Load] owns its clients and their connections; [Load.Stop] returns after all of them are gone. A [Remote] is a load in another
// process, for another network namespace, and owns that process.
package keptload
