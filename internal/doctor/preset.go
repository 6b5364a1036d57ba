package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
)

// presetFor returns the preset that is made for a program, or "". Most are named as it is, but for a version at its end.
func presetFor(program string) string {
	base := filepath.Base(program)
	if strings.HasPrefix(base, "prometheus-") && strings.HasSuffix(base, "-exporter") {
		return "prometheus-exporter"
	}
	if slices.Contains([]string{"plackup", "starman", "starlet"}, base) {
		return "server-starter"
	}
	for _, p := range config.Presets() {
		if rest, ok := strings.CutPrefix(base, p.Name); ok && strings.Trim(rest, "0123456789.-") == "" || base == p.Name+"-core" {
			return p.Name
		}
	}
	return ""
}

// preset looks whether a program that is known is told of its sockets, and stopped, in the way that it needs.
func preset(r *report, cfg *config.Config) {
	name := presetFor(cfg.Command[0])
	p, err := config.FindPreset(name)
	if err != nil {
		return
	}
	fix := fmt.Sprintf("preset = %q in the configuration, which zddsupervisor preset %[1]s explains", name)
	want := p.Values()
	told := slices.ContainsFunc(slices.Concat(cfg.Command, environment(cfg)), func(text string) bool { return strings.Contains(text, "{fd:") })
	for _, pass := range want.Pass {
		if pass != child.PassListenFDs && !slices.Contains(cfg.Pass, pass) && !told && len(cfg.Sockets) > 0 {
			r.add(Fails, fmt.Sprintf("%s is not told of its sockets: pass has no %q", name, pass), "it opens the same addresses itself, which are in use", fix)
		}
	}
	if cfg.Drain.Signal != want.Drain.Signal {
		r.add(Warns, fmt.Sprintf("drain.signal is %s, but %s finishes what it has begun on %s", unix.SignalName(cfg.Drain.Signal), name, unix.SignalName(want.Drain.Signal)), "requests are lost when an old version stops", fix)
	}
	if want.Drain.Linger > 0 && cfg.Drain.Linger == 0 {
		r.add(Warns, fmt.Sprintf("drain.linger is not set, but the preset for %s lets what it has begun end before it is told to stop", name), "requests are lost when an old version stops", fix)
	}
	if (name == "gunicorn" || name == "uvicorn") && cfg.Handoff.KeepAlive == config.KeepAliveCarry {
		r.add(Warns, fmt.Sprintf("%s takes a connection for idle whose request it has answered, even if the rest of that request's body is still to come", name),
			"behind an intermediary that passes bodies on as they come, that rest is taken for a request when the connection is carried over",
			"have the intermediary read a body before it passes the request on (nginx does, unless proxy_request_buffering is off), or write handoff.keepalive = \"close\" in the configuration")
	}
	if name == "podman" && cfg.Cgroup == config.CgroupOff {
		r.add(Fails, "podman runs with cgroup = \"off\"", "its READY=1 is refused, and its processes are not found when they are to end: they leave everything else that they could be found by",
			"remove cgroup from the configuration")
	}
}

// environment is what the configuration sets there.
func environment(cfg *config.Config) (values []string) {
	for _, value := range cfg.Environment {
		values = append(values, value)
	}
	return values
}
