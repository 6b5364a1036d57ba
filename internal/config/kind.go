package config

import (
	"slices"
)

// A Kind says what the value of a key looks like.
type Kind string

const (
	Text       Kind = "text"
	Path       Kind = "path"
	Duration   Kind = "time"
	Signal     Kind = "signal"
	Octal      Kind = "octal number"
	Number     Kind = "number"
	Bool       Kind = "true or false"
	Command    Kind = "command"
	PathList   Kind = "list of paths"
	WordList   Kind = "list of words"
	Table      Kind = "table"
	LimitTable Kind = "table of limits"
)

// table reports whether the key is a table whose entries have names of their own.
func (k Kind) table() bool { return k == Table || k == LimitTable }

// repeats reports whether the flag may be given several times.
func (k Kind) repeats() bool { return k.table() || k == PathList || k == WordList }

// A tomlType is what a value in a file is, in the words of error messages.
type tomlType string

const (
	tomlString tomlType = "a string"
	tomlNumber tomlType = "a whole number"
	tomlBool   tomlType = "true or false"
	tomlList   tomlType = "a list"
	tomlTable  tomlType = "a table"
	tomlFloat  tomlType = "a number with a fraction"
	tomlTime   tomlType = "a date or time"
)

// accepts reports whether the kind, or an entry of it if it is a table, is
// written as a value of type t.
func (k Kind) accepts(t tomlType) bool {
	switch k {
	case Number:
		return t == tomlNumber
	case Bool:
		return t == tomlBool
	case Command, PathList, WordList:
		return t == tomlList
	case LimitTable:
		return t == tomlNumber || t == tomlString
	default:
		return t == tomlString
	}
}

// form says how the kind is written in a file.
func (k Kind) form() string {
	switch k {
	case Path:
		return `a path in quotes`
	case Duration:
		return `a time with its unit in quotes, such as "90s" or "1m30s"`
	case Signal:
		return `the name of a signal in quotes, such as "SIGTERM"`
	case Octal:
		return `an octal number in quotes, such as "0022"`
	case Number:
		return `a whole number without quotes`
	case Bool:
		return `true or false, without quotes`
	case Command:
		return `a list with a program and its arguments, such as ["nginx", "-t"]`
	case PathList:
		return `a list of paths, such as ["/etc/default/app"]`
	case WordList:
		return `a list of words in quotes, such as ["listen-fds"]`
	case Table:
		return `a table of strings, such as { KEY = "value" }`
	case LimitTable:
		return `a table of limits, such as { nofile = 65536 }`
	default:
		return `a string in quotes`
	}
}

// entryForm is form for an entry of a table.
func (k Kind) entryForm() string {
	if k == LimitTable {
		return `a number, "infinity", or "SOFT:HARD"`
	}
	return Text.form()
}

// argument is what the usage of the flag calls its value.
func (k Kind) argument() string {
	switch k {
	case Path, PathList:
		return "PATH"
	case Duration:
		return "TIME"
	case Signal:
		return "SIGNAL"
	case Octal, Number:
		return "NUMBER"
	case Bool:
		return "bool" // pflag leaves this one out
	case Command:
		return "COMMAND"
	case WordList:
		return "WORD"
	case Table:
		return "KEY=VALUE"
	case LimitTable:
		return "NAME=LIMIT"
	default:
		return "TEXT"
	}
}

// keyNamed finds a key.
func keyNamed(keys []Key, name string) (Key, bool) {
	i := slices.IndexFunc(keys, func(k Key) bool { return k.Name == name })
	if i < 0 {
		return Key{}, false
	}
	return keys[i], true
}
