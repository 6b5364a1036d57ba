package config

import (
	"path/filepath"
)

// A Source is where a configuration comes from. The zero Source has nothing in
// it, which is not enough: there must be a command.
type Source struct {
	// Path is the configuration file, or "" for none.
	Path string
	// Flags are laid over the file; nil means none. See AddFlags.
	Flags *FlagSet
	// Args are the command, instead of the file's, unless they are empty.
	Args []string
	// WorkingDirectory is where the supervisor was started. Path and relative
	// paths in flags are relative to it; those in the file are relative to the
	// file's directory.
	WorkingDirectory string
	// Getenv looks up a variable in the supervisor's environment; nil means an
	// empty one.
	Getenv func(string) string
}

// Load reads the configuration anew. It can be called again and again, but not
// at the same time as the flags are parsed. It reads files and the user database
// and may block.
//
// The error is of type Problems. Load takes care that none of what it can see is
// left to be found out when a generation is started, but what it has seen may
// change until then.
func (s *Source) Load() (*Config, error) {
	l := loader{source: s, keys: Keys(), places: make(map[string]place)}
	l.defaults()
	if s.Path != "" {
		l.file()
	} else {
		l.preset(nil)
	}
	if len(l.problems) == 0 || l.read {
		l.flags()
		l.listen()
		l.complete()
		l.check()
	}
	if len(l.problems) > 0 {
		l.problems.sort(s.Path)
		return nil, l.problems
	}
	return &l.draft.Config, nil
}

// absolutePath is where the configuration file is.
// Absolute returns a path as it is meant in a flag, relative to WorkingDirectory.
func (s *Source) Absolute(path string) string { return absolute(s.WorkingDirectory, path) }

func (s *Source) absolutePath() string { return absolute(s.WorkingDirectory, s.Path) }

// fileDirectory is what relative paths in the file are relative to.
func (s *Source) fileDirectory() string { return filepath.Dir(s.absolutePath()) }

func (s *Source) getenv(name string) string {
	if s.Getenv == nil {
		return ""
	}
	return s.Getenv(name)
}

func (s *Source) readFile() ([]byte, error) { return readRegular(s.absolutePath()) }
