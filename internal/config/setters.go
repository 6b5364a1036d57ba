package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/internal/suggest"
	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// A setter puts the value of a key where it belongs. Its error says what is
// wrong with the value.
type setter = func(*draft, value) error

var errEmpty = errors.New("must not be empty")

func text(field func(*draft) *string) setter {
	return func(c *draft, v value) error {
		if v.texts[0] == "" {
			return errEmpty
		}
		*field(c) = v.texts[0]
		return nil
	}
}

func path(field func(*draft) *string) setter {
	return func(c *draft, v value) error {
		if v.texts[0] == "" {
			return errEmpty
		}
		*field(c) = absolute(v.dir, v.texts[0])
		return nil
	}
}

// absolute does not clean a path: "current/../x" means something else where
// current is a symbolic link.
func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return strings.TrimSuffix(dir, "/") + "/" + path
}

// words takes a program and its arguments.
func words(field func(*draft) *[]string) setter {
	return func(c *draft, v value) error {
		if len(v.texts) == 0 || v.texts[0] == "" {
			return fmt.Errorf("names no program; it must be %s", Command.form())
		}
		*field(c) = v.texts
		return nil
	}
}

// duration takes times of at least least.
func duration(field func(*draft) *time.Duration, least time.Duration) setter {
	return func(c *draft, v value) error {
		d, err := time.ParseDuration(v.texts[0])
		switch {
		case err != nil:
			return fmt.Errorf("%q is not a time; write a number with its unit, such as 90s, 1m30s or 500ms", v.texts[0])
		case d < 0:
			return fmt.Errorf("%q is less than nothing", v.texts[0])
		case d < least:
			return fmt.Errorf("must be more than nothing")
		}
		*field(c) = d
		return nil
	}
}

func number(field func(*draft) *int, least, most int) setter {
	return func(c *draft, v value) error {
		n, err := strconv.Atoi(v.texts[0])
		if err != nil || n < least || n > most {
			return fmt.Errorf("%q is not a whole number from %d to %d", v.texts[0], least, most)
		}
		*field(c) = n
		return nil
	}
}

func boolean(field func(*draft) *bool) setter {
	return func(c *draft, v value) error {
		on, err := strconv.ParseBool(v.texts[0])
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", v.texts[0])
		}
		*field(c) = on
		return nil
	}
}

// choice takes one of the words.
func choice[T ~string](field func(*draft) *T, words ...T) setter {
	return func(c *draft, v value) error {
		word := T(v.texts[0])
		if !slices.Contains(words, word) {
			known := make([]string, len(words))
			for i, w := range words {
				known[i] = string(w)
			}
			return fmt.Errorf("%q is not one of %q%s", word, known, suggest.DidYouMean(v.texts[0], known))
		}
		*field(c) = word
		return nil
	}
}

func setName(c *draft, v value) error {
	if err := systemd.CheckName(v.texts[0]); err != nil {
		return err
	}
	c.Name = v.texts[0]
	return nil
}

func setDrainSignal(c *draft, v value) error {
	name := strings.ToUpper(v.texts[0])
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	sig := unix.SignalNum(name)
	if sig == 0 {
		return fmt.Errorf("%q is not the name of a signal, such as SIGTERM, SIGQUIT or SIGUSR1", v.texts[0])
	}
	c.Drain.Signal = sig
	return nil
}

func setUmask(c *draft, v value) error {
	mask, err := strconv.ParseUint(v.texts[0], 8, 32)
	if err != nil || mask > 0o777 {
		return fmt.Errorf("%q is not an octal number from 0000 to 0777", v.texts[0])
	}
	umask := uint32(mask)
	c.Umask = &umask
	return nil
}

func setEnvironment(c *draft, v value) error {
	for _, entry := range v.texts {
		name, val, ok := strings.Cut(entry, "=")
		switch {
		case !ok || name == "":
			return fmt.Errorf("%q is not KEY=VALUE", entry)
		case len(child.CleanEnv([]string{entry})) == 0:
			return fmt.Errorf("%s is set by the supervisor itself", name)
		}
		if c.Environment == nil {
			c.Environment = make(map[string]string)
		}
		c.Environment[name] = val
	}
	return nil
}

func setEnvironmentFiles(c *draft, v value) error {
	files := make([]string, len(v.texts))
	for i, file := range v.texts {
		rest, optional := strings.CutPrefix(file, "-")
		if rest == "" {
			return errEmpty
		}
		files[i] = absolute(v.dir, rest)
		if optional {
			files[i] = "-" + files[i]
		}
	}
	c.EnvironmentFiles = files
	return nil
}
