// Package manual makes manual pages of the commands and of the configuration's keys, from what these say about themselves, so that
// the pages cannot say anything else.
//
// cobra's own generator takes a text for Markdown, which ours are not, puts the description of a flag beside it, and would bring three
// modules and half a megabyte into the program.
package manual

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
)

// A Page is one manual page.
type Page struct {
	Name string // of its file: "zddsupervisor-run.1"
	Text string
}

// configPage is the page about the configuration file.
const configPage = "zddsupervisor.toml"

// Pages returns a page for root and for every command below it that is not hidden, and one for the configuration file. version is what
// they are the manual of.
func Pages(root *cobra.Command, version string) []Page {
	m := manual{root: root, version: version}
	pages := []Page{m.command(root)}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			pages = append(pages, m.command(c))
		}
	}
	return append(pages, m.configuration())
}

type manual struct {
	root    *cobra.Command
	version string
}

// head writes what is the same on every page. No date is in it, so that the same source makes the same page.
func (m manual) head(r *roff, name, section, short string) {
	r.macro("TH", strings.ToUpper(name), section, "", m.root.Name()+" "+m.version, m.root.Name())
	r.macro("SH", "NAME")
	r.line(escape(name) + ` \- ` + escape(short))
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func (m manual) command(c *cobra.Command) Page {
	var r roff
	m.head(&r, pageName(c), "1", c.Short)
	r.macro("SH", "SYNOPSIS")
	if c == m.root {
		r.line(bold(c.Name()) + " " + italic("COMMAND") + " [" + italic("FLAG") + "...]")
	} else {
		name, rest, _ := strings.Cut(strings.TrimPrefix(c.UseLine(), m.root.Name()+" "), " ")
		r.line(bold(m.root.Name()+" "+name) + " " + escape(rest))
	}
	about, statuses := exitStatuses(c.Long)
	if about != "" {
		r.macro("SH", "DESCRIPTION")
		r.text(about)
	}
	if c == m.root {
		r.macro("SH", "COMMANDS")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				r.macro("TP")
				r.line(bold(pageName(sub)) + "(1)")
				r.line(escape(sub.Short))
			}
		}
	}
	m.flags(&r, c)
	if len(statuses) > 0 {
		r.macro("SH", "EXIT STATUS")
		for _, s := range statuses {
			r.macro("TP")
			r.line(bold(s.status))
			r.line(escape(s.means))
		}
	}
	if c.Example != "" {
		r.macro("SH", "EXAMPLES")
		r.paragraph(strings.Trim(c.Example, "\n"))
	}
	if c == m.root {
		m.files(&r)
	}
	m.seeAlso(&r, c)
	return Page{pageName(c) + ".1", r.String()}
}

func (m manual) flags(r *roff, c *cobra.Command) {
	c.InitDefaultHelpFlag()
	first := true
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if first {
			r.macro("SH", "OPTIONS")
			first = false
		}
		value, usage := pflag.UnquoteUsage(f)
		name := bold("--" + f.Name)
		if f.Shorthand != "" {
			name = bold("-"+f.Shorthand) + ", " + name
		}
		if value != "" {
			name += " " + italic(value)
		}
		r.macro("TP")
		r.line(name)
		r.line(escape(usage))
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
			r.line(escape("(default " + f.DefValue + ")"))
		}
	})
}

func (m manual) files(r *roff) {
	r.macro("SH", "FILES")
	for _, f := range []struct{ path, what string }{
		{"/etc/zddsupervisor/NAME.toml", "The configuration of the supervisor with that name, where its unit was written by unit --install, or is an instance of zddsupervisor@.service."},
		{"/run/zddsupervisor/NAME/control.sock", "Where the other commands reach the supervisor. For other users than root it is below XDG_RUNTIME_DIR."},
		{"/var/lib/zddsupervisor/NAME", "What outlives a reboot. For other users than root it is below XDG_STATE_HOME."},
	} {
		r.macro("TP")
		r.line(italic(f.path))
		r.line(escape(f.what))
	}
}

func (m manual) seeAlso(r *roff, c *cobra.Command) {
	r.macro("SH", "SEE ALSO")
	pages := []string{configPage + "(5)", "systemd.service(5)"}
	if c != m.root {
		pages = append([]string{m.root.Name() + "(1)"}, pages...)
	}
	r.line(escape(strings.Join(pages, ", ")))
}

// A status is an exit status.
type status struct{ status, means string }

var statusBegins = regexp.MustCompile(`(?:^|; |\. )([0-9])(?: and ([0-9]))? `)

// exitStatuses takes the paragraph about exit statuses out of a text: "Exit status: 0 done; 1 ...".
func exitStatuses(long string) (about string, statuses []status) {
	const begin = "Exit status: "
	var others []string
	for _, p := range paragraphs(long) {
		list, ok := strings.CutPrefix(p, begin)
		if !ok {
			others = append(others, p)
			continue
		}
		list = strings.Join(strings.Fields(list), " ")
		places := statusBegins.FindAllStringSubmatchIndex(list, -1)
		for i, at := range places {
			end := len(list)
			if i+1 < len(places) {
				end = places[i+1][0]
			}
			number := list[at[2]:at[3]]
			if at[4] >= 0 {
				number += ", " + list[at[4]:at[5]]
			}
			statuses = append(statuses, status{number, strings.TrimRight(strings.TrimSpace(list[at[1]:end]), ".;")})
		}
	}
	return strings.Join(others, "\n\n"), statuses
}

// configuration is the page about the configuration file.
func (m manual) configuration() Page {
	var r roff
	m.head(&r, configPage, "5", "configuration of a supervisor")
	r.macro("SH", "DESCRIPTION")
	r.text(`The file is TOML. Every key has a flag too, and a flag wins over the file. An unknown key is an error, and so is a value of
the wrong type. A reload with a file that has an error changes nothing.

Times are numbers with a unit ("90s", "1m30s"), signals are named with or without SIG, relative paths in the file are
relative to it.`)
	r.macro("SH", "KEYS")
	for _, key := range config.Keys() {
		r.macro("TP")
		about := string(key.Kind)
		if key.Default != "" {
			about += ", default " + key.Default
		}
		r.line(bold(key.Name) + escape(" ("+about+")"))
		r.line(escape(key.Doc))
	}
	r.macro("SH", "EXAMPLE")
	r.paragraph(` name = "app"
 command = ["/srv/app/current/bin/app"]
 directory = "/srv/app/current"
 user = "app"

 [[socket]]
 name = "http"
 listen = "tcp://:8080"`)
	r.macro("SH", "SEE ALSO")
	r.line(escape(m.root.Name() + "(1), " + m.root.Name() + "-run(1)"))
	return Page{configPage + ".5", r.String()}
}
