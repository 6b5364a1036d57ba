package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// FlagSet is where AddFlags puts the flags, and Source finds them.
type FlagSet = pflag.FlagSet

// AddFlags adds a flag for every key but the command, which is what follows the
// flags. Their values are not looked at before Source.Load.
func AddFlags(flags *FlagSet) {
	for _, key := range Keys() {
		name := key.Flag()
		if name == "" || flags.Lookup(name) != nil { // all keys of a socket have one flag
			continue
		}
		repeats := key.Kind.repeats() || key.ofSocket()
		usage := firstSentence(key.Doc)
		if repeats {
			usage += " May be repeated."
		}
		base := &flagValue{argument: key.Kind.argument(), shown: key.Default}
		if key.ofSocket() {
			base.argument = "[NAME=]SPEC[?OPTION=VALUE&...]"
		}
		var v pflag.Value = base
		if repeats {
			v = &repeatedFlag{base}
		}
		flag := flags.VarPF(v, name, "", usage)
		if key.Kind == Bool {
			flag.NoOptDefVal = "true"
		}
	}
}

func firstSentence(text string) string {
	sentence, _, more := strings.Cut(text, ". ")
	if more {
		sentence += "."
	}
	return sentence
}

// flagValue keeps what a flag was given.
type flagValue struct {
	argument string // what the usage calls it
	shown    string // the default
	given    []string
}

func (f *flagValue) Set(text string) error {
	f.given = []string{text}
	return nil
}

func (f *flagValue) String() string {
	if len(f.given) == 0 {
		return f.shown
	}
	return f.given[0]
}

func (f *flagValue) Type() string { return f.argument }

func (f *flagValue) values() []string { return f.given }

// A repeatedFlag may be given several times. It is a pflag.SliceValue.
type repeatedFlag struct{ *flagValue }

func (f *repeatedFlag) Set(text string) error { return f.Append(text) }

func (f *repeatedFlag) String() string {
	if len(f.given) == 0 {
		return f.shown
	}
	return strings.Join(f.given, " ")
}

// Append adds a value.
func (f *repeatedFlag) Append(text string) error {
	f.given = append(f.given, text)
	return nil
}

// Replace takes the place of all values.
func (f *repeatedFlag) Replace(texts []string) error {
	f.given = slices.Clone(texts)
	return nil
}

// GetSlice returns all values.
func (f *repeatedFlag) GetSlice() []string { return slices.Clone(f.given) }

// given returns what the flag was given, or nil.
func given(flags *FlagSet, name string) []string {
	if flags == nil {
		return nil
	}
	flag := flags.Lookup(name)
	if flag == nil || !flag.Changed {
		return nil
	}
	v, ok := flag.Value.(interface{ values() []string })
	if !ok {
		return nil
	}
	return v.values()
}

var errQuote = errors.New("has a quotation mark without its other one")

// splitWords splits a command as a shell would that knows nothing but words,
// quotation marks, and backslashes outside of single ones.
func splitWords(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote rune
	inWord, escaped := false, false
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			inWord, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			inWord, quote = true, r
		case strings.ContainsRune(" \t\n", r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			inWord = true
			word.WriteRune(r)
		}
	}
	if quote != 0 || escaped {
		return nil, errQuote
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
