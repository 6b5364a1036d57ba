package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/suggest"
)

// A socketText is a socket before its text is read: the one of a flag, or a
// [[socket]] of the file, put into the same notation.
type socketText struct {
	at      place
	listen  string
	options []socketOption
	broken  bool // a problem was reported already
}

// A socketOption is a key of a [[socket]] other than listen.
type socketOption struct {
	name, text string
	at         place
}

// text returns the notation of fdpass.ParseSpec.
func (s socketText) text() string {
	text, sep := s.listen, "?"
	if strings.Contains(text, "?") {
		sep = "&"
	}
	for _, o := range s.options {
		text += sep + o.name + "=" + strings.NewReplacer("%", "%25", "&", "%26").Replace(o.text)
		sep = "&"
	}
	return text
}

// place returns where an option is, and the key it is there.
func (s socketText) place(option string) (place, string) {
	for _, o := range s.options {
		if o.name == option {
			return o.at, socketTable + "." + option
		}
	}
	return s.at, socketTable + ".listen"
}

// socketEntry takes in one entry of a [[socket]], or its header.
func (l *loader) socketEntry(e entry) {
	at := place{line: e.line}
	switch {
	case e.item < 0:
		l.refused = socketTable
		l.report(at, e.name(), "must be a list of tables: write [[socket]] before the keys of each one")
		return
	case e.item == len(l.sockets):
		l.sockets = append(l.sockets, socketText{at: at})
	}
	if len(e.parts) == 1 {
		return
	}
	socket := &l.sockets[e.item]
	key, known := keyNamed(l.keys, e.name())
	switch {
	case !known:
		l.report(at, "", "unknown key %q in a [[socket]]%s", strings.TrimPrefix(e.name(), socketTable+"."), suggest.DidYouMean(e.name(), l.names()))
	case !key.Kind.accepts(e.typ):
		l.report(at, e.name(), "is %s, but must be %s", e.typ, key.Kind.form())
	case e.parts[1] == "listen":
		socket.listen, socket.at = e.texts[0], at
		return
	default:
		socket.options = append(socket.options, socketOption{e.parts[1], e.texts[0], at})
		return
	}
	socket.broken = true
}

// listen makes sockets of their texts: those of the flag if there are any, else
// those of the file, in which problems are reported in any case.
func (l *loader) listen() {
	const flag = "listen"
	texts := l.sockets
	specs, whole := l.parseSockets(texts)
	if listen := given(l.source.Flags, flag); listen != nil {
		texts = nil
		for _, text := range listen {
			texts = append(texts, socketText{at: place{flag: "--" + flag}, listen: text})
		}
		specs, whole = l.parseSockets(texts)
	}
	if !whole {
		return
	}
	var bad *fdpass.SetError
	if err := fdpass.ValidateSet(specs); errors.As(err, &bad) {
		l.reportSpec(texts[bad.Index], bad.Err)
		return
	}
	for i := range specs {
		specs[i].Name = specs[i].FDName()
		l.draft.Places = append(l.draft.Places, l.problem(texts[i].at, socketTable+".listen", "").place())
	}
	l.draft.Sockets, l.whole = specs, true
}

// parseSockets reads texts, and reports whether there was nothing wrong.
func (l *loader) parseSockets(texts []socketText) (specs []fdpass.Spec, whole bool) {
	whole = true
	for _, text := range texts {
		spec, ok := l.parseSocket(text)
		specs = append(specs, spec)
		whole = whole && ok
	}
	return specs, whole
}

func (l *loader) parseSocket(text socketText) (spec fdpass.Spec, ok bool) {
	switch {
	case text.broken:
		return spec, false
	case text.listen == "":
		l.report(text.at, socketTable+".listen", `is missing or empty; write for example listen = "tcp://:8080"`)
		return spec, false
	}
	spec, err := fdpass.ParseSpec(text.text())
	if err != nil {
		l.reportSpec(text, err)
		return spec, false
	}
	// Steered needs nothing: it is the default of the sockets that can be, and
	// the others stay shared.
	if spec.Mode == "" && l.draft.mode == fdpass.Shared && !spec.SelfBound() {
		spec.Mode = fdpass.Shared
	}
	return spec, true
}

// reportSpec reports what is wrong with a socket at the option that is wrong.
func (l *loader) reportSpec(text socketText, err error) {
	var bad *fdpass.SpecError
	if !errors.As(err, &bad) {
		l.report(text.at, socketTable+".listen", "%v", err)
		return
	}
	at, key := text.place(bad.Option)
	if at.flag != "" { // there may be several
		l.report(at, key, "%q: %s", text.listen, bad.Reason)
		return
	}
	l.report(at, key, "%s", strings.TrimPrefix(bad.Reason, fmt.Sprintf("option %q: ", bad.Option))) // the key says it
}
