// Package services are services that exist already, unmodified: as Debian packages them, and two programs on well-known libraries. Each says how
// it is told about its socket, as its own documentation has it. A service is a file here and a line in All.
package services

import (
	"context"
	"fmt"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/integration/internal/build"
	"github.com/zddsupervisor/zddsupervisor/internal/load"
)

// Address is where each of them listens.
const Address = "127.0.0.1:8080"

// Executed is the file to which those that keep connections append the target of each request that they execute, with a blank after it.
const Executed = "/run/executed"

// A Service is one of them.
type Service struct {
	// Name is that of its recipe in docs/services.md.
	Name   string
	Files  map[string]string
	Config string // without the name and the socket, which is "http"
	// Tells are more keys, which have it write down what it executes. They are no part of the recipe.
	Tells string
	Load  load.Config
	// Units are helpers that run beside it, such as the web server before an application server.
	Units map[string]string
	// Program compiles it, if it is no package of Debian's; it is put at ProgramPath.
	Program func(*build.Programs, context.Context) (string, error)
	// Keeps tells that it keeps connections open between requests, and closes them in a way in which they can be carried over (HAProxy ends
	// them with shutdown(2)).
	Keeps bool
	// NoBodies tells that its answers do not say what came of a request's body.
	NoBodies bool
	// DropsBodies tells that it takes a connection for idle on which a request was answered whose body is still to come: its application answers
	// /?early before it has read that. docs/carry.md says what follows.
	DropsBodies bool
	// Persistent tells that it keeps connections open between requests at all; it is implied by Keeps.
	Persistent bool
	// SharedReady is the [ready] table for a shared socket, on which the supervisor itself cannot ask; "" if Config does for that.
	SharedReady string
}

// ProgramPath is where the program of a Service is.
const ProgramPath = "/usr/local/bin/app"

// Configuration is that of a supervisor of the service, with its socket in this mode. carry has its kept-alive connections carried over.
func (s Service) Configuration(mode fdpass.Mode, carry bool) string {
	text := "name = \"svc\"\n" + s.Tells + s.Config
	if mode == fdpass.Shared && s.SharedReady != "" {
		text += "\n" + s.SharedReady
	}
	if carry {
		text += "\n[handoff]\nkeepalive = \"carry\"\n"
	}
	text += fmt.Sprintf("\n[[socket]]\nname = \"http\"\nlisten = \"tcp://%s\"\nmode = %q\n", Address, mode)
	if carry {
		text += "protocol = \"http/1\"\n"
	}
	return text
}

// All are all of them.
func All() []Service {
	return []Service{
		gunicorn(), gunicornThreads(), puma(), nginx(), uvicorn(), haproxy(), nodeExporter(), node(),
		hypercorn(), daphne(), lighttpd(), uwsgi(), phpFPM(), express(), starlet(), goSystemd(), sshd(),
	}
}
