package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/suggest"
)

// passKeys are the keys of how the service is told of its sockets, and of the
// presets, most of which set that.
func passKeys() []Key {
	return []Key{
		{
			Name: presetKey, Kind: Text, set: setPreset,
			Doc: `Name of a set of values for one kind of service, such as "nginx". ` +
				`They stand for what is configured nowhere else, and any key that is set here wins. zddsupervisor preset NAME prints them. There are ` +
				strings.Join(presetNames(), ", ") + `.`,
		},
		{
			Name: "pass", Kind: WordList, Default: string(child.PassListenFDs), set: setPass,
			Doc: `How the service is told of its sockets, which are its descriptors from 3 on: any of ` + strings.Join(passNames(), ", ") + `. ` +
				`"listen-fds": LISTEN_FDS, LISTEN_FDNAMES and LISTEN_PID, as systemd does it. ` +
				`"server-starter": SERVER_STARTER_PORT, with their addresses. "einhorn": EINHORN_FD_COUNT, EINHORN_FD_0 and so on. ` +
				`"nginx": NGINX, as nginx tells the program that replaces it. "php-fpm": FPM_SOCKETS, as php-fpm tells itself. ` +
				`With [], or --pass '', it is told by {fd:NAME} in its command or environment alone.`,
		},
	}
}

func passNames() []string {
	var names []string
	for _, p := range child.Passes() {
		names = append(names, string(p))
	}
	return names
}

func setPass(c *draft, v value) error {
	if slices.Equal(v.texts, []string{""}) { // a flag has no other way to say that there are none
		v.texts = nil
	}
	passes := make([]child.Pass, len(v.texts))
	for i, text := range v.texts {
		if !slices.Contains(passNames(), text) {
			return fmt.Errorf("%q is not one of %q%s", text, passNames(), suggest.DidYouMean(text, passNames()))
		}
		passes[i] = child.Pass(text)
	}
	c.Pass = passes
	return nil
}

// checkPass looks for sockets that the service cannot be told of, and for variables
// that would be lost.
func (l *loader) checkPass() {
	c := &l.draft
	if c.Ready.By == ByEinhorn && !slices.Contains(c.Pass, child.PassEinhorn) {
		l.reportKey("ready.by", "is %q, which needs pass to have %q", c.Ready.By, child.PassEinhorn)
	}
	for _, pass := range c.Pass {
		for _, s := range c.Sockets {
			if s.Network == fdpass.Systemd || !s.Inherited() { // its address is not known yet, or it is not told of
				continue
			}
			if err := pass.Check(fdpass.Spec{Network: s.Network, Address: s.Address}.String()); err != nil {
				l.reportKey("pass", "%v", err)
			}
		}
		for _, name := range sortedKeys(c.Environment) {
			if pass.Owns(name) {
				l.reportKey("environment."+name, "%s is set by the supervisor itself, as pass = %q says", name, []child.Pass{pass})
			}
		}
	}
}
