package config

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// complete fills in the defaults that depend on other keys or on the machine.
func (l *loader) complete() {
	c := &l.draft
	if len(c.Command) == 0 {
		if _, given := l.places["command"]; !given {
			l.reportKey("command", `is missing; write command = ["PROGRAM", "ARGUMENT"], or the command after "--"`)
		}
		return
	}
	if _, given := l.places["name"]; !given {
		c.Name = filepath.Base(c.Command[0])
		if err := systemd.CheckName(c.Name); err != nil {
			l.reportKey("name", "is missing, and the command's is %v; set name", err)
		}
	}
	if c.Directory == "" {
		c.Directory = l.source.WorkingDirectory
	}
	l.completeReady()
	l.completeProbe()
	l.completeCanary()
	for _, d := range directories() {
		dir := d.configured(c)
		if *dir != "" {
			continue
		}
		var err error
		if *dir, err = d.choose(c.Name, os.Geteuid() == 0, l.source.getenv); err != nil {
			l.reportKey(d.key, "%v", err)
		}
	}
	if len(c.RuntimeDirectory) > maxRuntimeDirectory {
		l.reportKey("runtime-directory", "%s has more than %d bytes, which leaves no room for the names of sockets in it", c.RuntimeDirectory, maxRuntimeDirectory)
	}
}

// check looks for what is wrong with keys together, and with what they name.
func (l *loader) check() {
	if len(l.draft.Command) == 0 {
		return // told already, and the rest would follow from it
	}
	l.checkReady()
	l.checkProbe()
	l.checkCanary()
	l.checkCarry()
	l.checkPass()
	l.checkUser()
	l.checkEnvironmentFiles()
	l.checkPlaceholders(l.checkReleases())
}

func (l *loader) checkUser() {
	c := &l.draft
	if c.User == "" {
		if c.Group != "" {
			l.reportKey("group", "needs user to be set too")
		}
		return
	}
	_, err := child.LookupCredential(c.User, c.Group)
	var unknownGroup user.UnknownGroupError
	switch {
	case errors.As(err, &unknownGroup):
		l.reportKey("group", "there is no group %q", c.Group)
	case err != nil:
		l.reportKey("user", "%v", err)
	}
}

func (l *loader) checkEnvironmentFiles() {
	const key = "environment-file"
	for _, file := range l.draft.EnvironmentFiles {
		_, problem := readEnvironmentFile(file)
		switch {
		case problem == nil:
		case problem.File != "": // the mistake is in there
			l.problems = append(l.problems, *problem)
		default:
			l.reportKey(key, "%s", problem.Text)
		}
	}
}

// checkReleases returns the name of a release for checkPlaceholders: a made-up
// one where there is a problem with the releases, so as not to tell it twice.
func (l *loader) checkReleases() string {
	r := l.draft.Releases
	if l.draft.Handoff.AutoRollback && r == (Releases{}) {
		l.reportKey("handoff.auto-rollback", "needs releases.directory and releases.current to be set too")
	}
	const someRelease = "x"
	switch {
	case r == Releases{}:
		return ""
	case r.Directory == "" && r.Current == "":
		l.reportKey("releases.keep", "needs releases.directory and releases.current to be set too")
	case r.Directory == "":
		l.reportKey("releases.current", "needs releases.directory to be set too")
	case r.Current == "":
		l.reportKey("releases.directory", "needs releases.current to be set too")
	default:
		if _, err := l.draft.Release(); err != nil {
			l.reportKey("releases.current", "%v", err)
		}
	}
	return someRelease
}

func (l *loader) checkPlaceholders(release string) {
	c := &l.draft
	values := c.Values(1, release)
	if !l.whole {
		return // with something wrong about the sockets their names are not known
	}
	for _, command := range []struct {
		key   string
		texts []string
	}{{"command", c.Command}, {"check.command", c.Check.Command}, {"ready.command", c.Ready.Command},
		{"hooks.before-cutover", c.Hooks.BeforeCutover}, {"hooks.after-live", c.Hooks.AfterLive}, {"hooks.after-gone", c.Hooks.AfterGone}} {
		of := values
		if command.key == "check.command" || command.key == "hooks.after-gone" {
			of.Ports = map[string]int{} // no generation has any then
		}
		if _, err := of.Expand(command.texts); err != nil {
			l.reportKey(command.key, "%v", err)
		}
	}
	for _, name := range sortedKeys(c.Environment) {
		if _, err := values.expand(c.Environment[name]); err != nil {
			l.reportKey("environment."+name, "%v", err)
		}
	}
}
