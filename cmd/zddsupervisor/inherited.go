package main

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/upgrade"
)

// stateName is the file in the runtime directory in which a supervisor leaves word for the next one.
const stateName = "state.json"

// sortInherited tells the sockets of .socket units from those that the supervisor before this one has left in systemd's
// store, which the caller takes.
func sortInherited(inherited map[string][]*fdpass.FD) (sockets map[string][]*fdpass.FD, stored map[string]*fdpass.FD) {
	sockets, stored = make(map[string][]*fdpass.FD), make(map[string]*fdpass.FD)
	for name, fds := range inherited {
		if strings.HasPrefix(name, fdpass.IDPrefix) && len(fds) == 1 {
			stored[name] = fds[0]
			delete(inherited, name)
			continue
		}
		sockets[name] = fds
	}
	return sockets, stored
}

func closeSockets(inherited map[string][]*fdpass.FD) {
	for _, fds := range inherited {
		for _, fd := range fds {
			fd.Close()
		}
	}
}

// loadOrRecall loads the configuration. Where that fails while the service of a supervisor that has died runs on, it
// returns what that was started from, and why the configuration was not used: a mistake in a file that nobody has
// asked to be read yet must not cost the service its supervisor.
func loadOrRecall(source *config.Source) (cfg *config.Config, broken, err error) {
	cfg, err = source.Load()
	if err == nil {
		return cfg, nil, nil
	}
	dir := source.Getenv("RUNTIME_DIRECTORY")
	if flag := source.Flags.Lookup("runtime-directory"); flag != nil && flag.Changed {
		dir = source.Absolute(flag.Value.String())
	}
	if dir == "" {
		return nil, nil, err
	}
	saved, loadErr := upgrade.LoadSaved(filepath.Join(dir, stateName))
	if loadErr != nil || !saved.HasService() {
		return nil, nil, err
	}
	cfg = new(config.Config)
	if json.Unmarshal(saved.LivePlan(), cfg) != nil || cfg.Name == "" {
		return nil, nil, err
	}
	return cfg, err, nil
}
