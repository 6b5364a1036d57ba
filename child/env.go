package child

import (
	"slices"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/child/internal/shim"
)

// handedOver are the variables that Start sets, or leaves unset, by itself.
// A second one of the same name would be the one that is found.
var handedOver = [...]string{
	"LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET",
	shim.Variable, SuccessorVariable,
}

// SuccessorVariable is a private variable: by it a supervisor finds what another one has left behind that it has started
// in its own place.
const SuccessorVariable = "ZDD_SUCCESSOR"

// ofSupervisor are the other variables that systemd sets for the one process
// that it has started itself.
var ofSupervisor = [...]string{
	"WATCHDOG_PID", "WATCHDOG_USEC", "FDSTORE", "MAINPID", "MAINPIDFDID",
}

// CleanEnv returns env without the variables that speak to the supervisor and
// would mislead a service: those of socket activation, of notification, of the
// watchdog, of the descriptor store and of reloading, and private ones. A
// LISTEN_PIDFDID that is left, for one, makes libsystemd refuse the sockets.
func CleanEnv(env []string) []string {
	return withoutVariables(env, slices.Concat(handedOver[:], ofSupervisor[:]))
}

// withoutVariables returns a copy of env without the named variables.
func withoutVariables(env []string, names []string) []string {
	kept := make([]string, 0, len(env))
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		if !slices.Contains(names, name) {
			kept = append(kept, entry)
		}
	}
	return kept
}
