package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/child"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
)

// load loads the configuration, or says why it cannot be used.
func load(r *report, source *config.Source) *config.Config {
	name := source.Path
	if name == "" {
		name = "the command line"
	}
	if source.Path != "" {
		f, err := os.Open(source.Absolute(source.Path))
		if errors.Is(err, fs.ErrPermission) {
			r.add(Unseen, name+" may not be read by this user", "", "run this as root")
			return nil
		}
		f.Close() // a nil file takes it
	}
	cfg, err := source.Load()
	var problems config.Problems
	switch {
	case errors.As(err, &problems):
		for _, p := range problems {
			file := p.File
			if file == "" {
				file = name
			}
			r.add(Fails, p.String(), "a supervisor does not start with it, and a reload changes nothing", "correct "+file)
		}
		return nil
	case err != nil:
		r.add(Fails, err.Error(), "a supervisor does not start with it, and a reload changes nothing", "correct "+name)
		return nil
	}
	r.fine(name + " can be used")
	return cfg
}

// service looks at what is started.
func service(r *report, cfg *config.Config, prepare func(*config.Config) ([]child.Command, error)) {
	commands, err := prepare(cfg)
	if err != nil {
		r.add(Fails, err.Error(), "no version can be started", "correct the configuration")
		return
	}
	for _, c := range commands {
		program(r, cfg, c)
	}
}

// program looks at one program: the service, or what is run before it.
func program(r *report, cfg *config.Config, c child.Command) {
	err := child.Examine(c)
	var found *child.ExecError
	switch {
	case errors.As(err, &found):
		fix := "correct command or directory in the configuration"
		if errors.Is(err, fs.ErrPermission) {
			fix = fmt.Sprintf("let %s get there: namei -l %s shows the way", userOf(cfg), c.Path)
		}
		r.add(Fails, err.Error(), "no version can be started", fix)
		return
	case err != nil:
		r.add(Unseen, fmt.Sprintf("%s: %v", c.Path, errors.Unwrap(err)), "", "run this as root")
		return
	}
	r.fine(fmt.Sprintf("%s can be started by %s", c.Path, userOf(cfg)))
	if shell := withoutExec(c); shell != "" {
		r.add(Warns, fmt.Sprintf("%s is run by a shell that does not exec it", shell),
			"the service is a child of the shell: LISTEN_PID is not its pid, and the stop signal goes to the shell",
			"put exec before the service's command")
	}
}

func userOf(cfg *config.Config) string {
	if cfg.User == "" {
		return "the supervisor's user"
	}
	return "the user " + cfg.User
}

// maxScript is how much of a script is looked at.
const maxScript = 64 << 10

// withoutExec returns what a shell runs without exec, or "".
func withoutExec(c child.Command) string {
	shells := []string{"sh", "dash", "bash", "ash", "ksh", "zsh", "busybox"}
	var script, name string
	if slices.Contains(shells, filepath.Base(c.Path)) {
		for i, arg := range c.Args {
			if i+1 < len(c.Args) && strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.HasSuffix(arg, "c") {
				script, name = c.Args[i+1], strconv.Quote(c.Args[i+1])
				// A shell executes the only command of a line in its own place.
				if !strings.ContainsAny(script, ";&|\n") {
					return ""
				}
			}
		}
	} else {
		script, name = shellScript(c, shells), c.Path
	}
	for word := range strings.FieldsFuncSeq(script, func(r rune) bool { return strings.ContainsRune(" \t\n;&|(){}", r) }) {
		if word == "exec" {
			return ""
		}
	}
	if script == "" {
		return ""
	}
	return name
}

// shellScript returns the text of a program that a shell runs, or "".
func shellScript(c child.Command, shells []string) string {
	file := c.Path
	if !filepath.IsAbs(file) {
		file = filepath.Join(c.Dir, file)
	}
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxScript))
	first, rest, _ := strings.Cut(string(text), "\n")
	line, ok := strings.CutPrefix(first, "#!")
	words := strings.Fields(line)
	if err != nil || !ok || len(words) == 0 {
		return ""
	}
	interpreter := filepath.Base(words[0])
	if interpreter == "env" && len(words) > 1 {
		interpreter = words[len(words)-1]
	}
	if !slices.Contains(shells, interpreter) {
		return ""
	}
	return rest
}

// uncarried tells what a supervisor has found out about a service whose connections are to be carried over.
func uncarried(r *report, cfg *config.Config, why string) {
	if why != "" && cfg.Handoff.KeepAlive == config.KeepAliveCarry {
		r.add(Warns, "handoff.keepalive is \"carry\", and no connections are carried over any more: "+why,
			"requests that come while a connection ends are lost, as with keepalive = \"close\"", "keepalive = \"close\" below [handoff]; where the service can be set to close idle connections, do that and put \"carry\" back after the handoff")
	}
}

// limits looks at what the kernel and the unit allow at most.
func (m machine) limits(r *report, cfg *config.Config, u *Unit) {
	if scope, err := m.number("sys/kernel/yama/ptrace_scope"); err == nil && cfg.Handoff.KeepAlive == config.KeepAliveCarry {
		switch {
		case scope >= 3:
			r.add(Fails, `handoff.keepalive is "carry", and Yama allows no tracing at all (kernel.yama.ptrace_scope=3)`, "no connection is carried over",
				"echo kernel.yama.ptrace_scope=1 > /etc/sysctl.d/zddsupervisor.conf, and reboot: 3 stays until then")
		case scope == 2 && !u.root():
			r.add(Fails, `handoff.keepalive is "carry", and kernel.yama.ptrace_scope=2 allows tracing to root alone`, "no connection is carried over", "sysctl -w kernel.yama.ptrace_scope=1")
		}
	}
	for _, l := range cfg.Limits {
		if l.Resource != unix.RLIMIT_NOFILE {
			continue
		}
		if most, err := m.number("sys/fs/nr_open"); err == nil && l.Hard > uint64(most) {
			r.add(Fails, fmt.Sprintf("limits.nofile is %d, and the kernel allows %d (fs.nr_open)", l.Hard, most), "no version can be started", fmt.Sprintf("sysctl -w fs.nr_open=%d", l.Hard))
		}
	}
	if u == nil {
		return
	}
	// The supervisor has a few descriptors for each socket and generation, and one for each connection that it passes on.
	const enough = 4096
	if n, err := strconv.Atoi(u.properties["LimitNOFILE"]); err == nil && n < enough {
		r.add(Warns, fmt.Sprintf("LimitNOFILE=%d", n), "the service cannot have more connections than that, nor the supervisor carry them over", u.line("LimitNOFILE", "524288"))
	}
}

// root reports whether the supervisor has root's privileges, as far as the unit says.
func (u *Unit) root() bool {
	if u == nil {
		return os.Geteuid() == 0
	}
	return u.is("User", "", "root", "0")
}
