package config

import (
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
)

// Environ returns the environment of a generation: base, which is what it
// inherits; HOME, USER and LOGNAME of the user it runs as, where one is
// configured; then EnvironmentFiles in their order, and Environment. Later ones
// win. Placeholders are replaced in the last two. It reads the files and the
// user database and may block.
func (c *Config) Environ(base []string, values Values) ([]string, error) {
	var env environment
	for _, entry := range base {
		name, value, _ := strings.Cut(entry, "=")
		env.set(name, value)
	}
	if err := env.setUser(c.User); err != nil {
		return nil, err
	}
	for _, file := range c.EnvironmentFiles {
		variables, problem := readEnvironmentFile(file)
		if problem != nil {
			return nil, errors.New(problem.String())
		}
		for _, v := range variables {
			value, err := values.expand(v.value)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", strings.TrimPrefix(file, "-"), v.name, err)
			}
			env.set(v.name, value)
		}
	}
	for _, name := range sortedKeys(c.Environment) {
		value, err := values.expand(c.Environment[name])
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", name, err)
		}
		env.set(name, value)
	}
	return env.entries, nil
}

// An environment keeps each variable once, where it was first.
type environment struct {
	entries []string
	index   map[string]int
}

func (e *environment) set(name, value string) {
	entry := name + "=" + value
	if i, ok := e.index[name]; ok {
		e.entries[i] = entry
		return
	}
	if e.index == nil {
		e.index = make(map[string]int)
	}
	e.index[name] = len(e.entries)
	e.entries = append(e.entries, entry)
}

// setUser sets what depends on the user. A number that stands for no user leaves
// it as it is.
func (e *environment) setUser(name string) error {
	if name == "" {
		return nil
	}
	u, err := user.Lookup(name)
	var unknown user.UnknownUserError
	if errors.As(err, &unknown) {
		u, err = user.LookupId(name)
	}
	var unknownID user.UnknownUserIdError
	switch {
	case errors.As(err, &unknownID):
		return nil
	case err != nil:
		return fmt.Errorf("look up user %q: %w", name, err)
	}
	e.set("HOME", u.HomeDir)
	e.set("USER", u.Username)
	e.set("LOGNAME", u.Username)
	return nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
