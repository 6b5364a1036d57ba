package systemd

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata/*.service anew")

// The units in testdata are what people get; each change in them is to be seen.
func TestUnitText(t *testing.T) {
	t.Parallel()
	unit := Unit{
		Name:         "svc",
		Binary:       "/usr/bin/zddsupervisor",
		Config:       "/etc/zddsupervisor/svc.toml",
		CheckTimeout: 30 * time.Second,
		ReadyTimeout: 90 * time.Second,
		DrainTimeout: 30 * time.Second,
	}
	portable := unit
	portable.Portable = true
	full := Unit{
		Name:         "svc-2.test_x",
		Description:  `50% of "it" costs $5`,
		Binary:       "/opt/my programs/zdd%supervisor",
		Run:          []string{"--listen", "http=tcp://:8080?mode=shared&backlog=1024", "--", "svc", "--json", `{"a": "$b"}`},
		ReadyTimeout: 1500 * time.Millisecond,
		SettleMax:    2 * time.Second,
		Soak:         time.Minute,
		DrainTimeout: time.Hour,
		Watchdog:     20 * time.Second,
	}
	hardened := unit
	hardened.Sandbox = &Sandbox{Capabilities: []string{"CAP_SETUID", "CAP_NET_BIND_SERVICE"}}
	hardened.Sockets = []string{"svc-a", "svc-b"}
	template := unit
	template.Name, template.Config, template.Template = "", "/etc/zddsupervisor", true
	for file, unit := range map[string]Unit{
		"svc.service": unit, "portable.service": portable, "full.service": full, "hardened.service": hardened, "template@.service": template,
	} {
		got, err := unit.Text()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", file)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs; see go test -update. Got:\n%s", path, got)
		}
	}
}

// systemd-analyze exits with 0 in spite of what it does not understand, so its
// output has to be empty.
func TestUnitVerifies(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("systemd-analyze is not installed")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, portable := range []bool{true, false} {
		unit := Unit{
			Name:     "zdd-test",
			Binary:   self, // must exist
			Run:      []string{"--listen", ":80", "--", "svc", "a b", `"`, "", "100%", "$HOME", "${X", `\`, ";", "tab\t", "é", "#"},
			Watchdog: time.Second,
			Portable: portable,
		}
		text, err := unit.Text()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), unit.Name+".service")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var complaints []string
		out, err := exec.Command(analyze, "verify", "--man=no", path).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			// systemd before 253 knows neither; its other units are not ours.
			if strings.Contains(line, "zdd-test") && !strings.Contains(line, "notify-reload") && !strings.Contains(line, "ReloadSignal") {
				complaints = append(complaints, line)
			}
		}
		if err != nil || len(complaints) > 0 {
			t.Errorf("portable %v: %v\n%s", portable, err, out)
		}
	}
}

// The limits of the unit must leave the supervisor time for its own.
func TestUnitTimeouts(t *testing.T) {
	t.Parallel()
	unit := Unit{
		Name: "svc", Binary: "/zdd", Config: "/c",
		CheckTimeout: 1, ReadyTimeout: 10 * time.Second, Probing: 3 * time.Second, Canary: time.Minute, SettleMax: 2 * time.Second,
		Soak: 20 * time.Second, DrainTimeout: 5 * time.Minute,
	}
	text, err := unit.Text()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"TimeoutStartSec=225s", "TimeoutStopSec=332s"} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q in:\n%s", line, text)
		}
	}
}

func TestUnitErrors(t *testing.T) {
	t.Parallel()
	good := Unit{Name: "svc", Binary: "/bin/zdd", Config: "/etc/svc.toml"}
	if _, err := good.Text(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*Unit)
		want   error
	}{
		"name":                  {func(u *Unit) { u.Name = "a/b" }, ErrName},
		"no binary":             {func(u *Unit) { u.Binary = "" }, ErrUnit},
		"relative binary":       {func(u *Unit) { u.Binary = "zdd" }, ErrUnit},
		"variable in binary":    {func(u *Unit) { u.Binary = "/opt/$X/zdd" }, ErrUnit},
		"control in binary":     {func(u *Unit) { u.Binary = "/opt/\x00/zdd" }, ErrUnit},
		"no config":             {func(u *Unit) { u.Config = "" }, ErrUnit},
		"config and run":        {func(u *Unit) { u.Run = []string{"x"} }, ErrUnit},
		"relative config":       {func(u *Unit) { u.Config = "svc.toml" }, ErrUnit},
		"NUL in config":         {func(u *Unit) { u.Config = "/\x00" }, ErrUnit},
		"not UTF-8":             {func(u *Unit) { u.Config = "/\xff" }, ErrUnit},
		"lines in description":  {func(u *Unit) { u.Description = "a\nExecStart=/bin/evil" }, ErrUnit},
		"line goes on":          {func(u *Unit) { u.Description = `a\` }, ErrUnit},
		"not UTF-8 description": {func(u *Unit) { u.Description = "\xff" }, ErrUnit},
		"long line":             {func(u *Unit) { u.Config, u.Run = "", []string{strings.Repeat("x", 1<<20)} }, ErrUnit},
	} {
		unit := good
		tt.change(&unit)
		if text, err := unit.Text(); !errors.Is(err, tt.want) || text != "" {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"plain":              "plain",
		"--a=b,c:d/e":        "--a=b,c:d/e",
		"http=tcp://[::]:80": "http=tcp://[::]:80",
		"":                   `""`,
		"a b":                `"a b"`,
		`"`:                  `"\""`,
		`'`:                  `"'"`,
		`\`:                  `"\\"`,
		`\n`:                 `"\\n"`,
		";":                  `";"`,
		"100%":               "100%%",
		"%n %":               `"%%n %%"`,
		"$HOME":              "$$HOME",
		"${X}":               "$${X}",
		"$$":                 "$$$$",
		"a\nb\t\x7f":         `"a\x0ab\x09\x7f"`,
		"é":                  "é",
		"a\u2028b":           "\"a\u2028b\"",
		`{"a":[1]}`:          `"{\"a\":[1]}"`,
	} {
		if got := commandLine([]string{arg}); got != want {
			t.Errorf("%q: got %s, want %s", arg, got, want)
		}
	}
	if got := commandLine([]string{"a", "b c", "d"}); got != `a "b c" d` {
		t.Errorf("got %s", got)
	}
}

// Whatever an argument is, its line either is refused or says only what was
// meant: unquote is a model of how systemd reads it.
func FuzzCommandLine(f *testing.F) {
	for _, seed := range []string{"", "a b", `"\'`, "%%", "$$", "${A}", "\\x41", "\n", ";", "#", "é\u2028", "\xff", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, arg string) {
		var text unitText
		text.set("ExecStart", commandLine([]string{"/x", arg, "end"}))
		if text.err != nil {
			return
		}
		line := text.String()
		if strings.Count(line, "\n") != 1 {
			t.Fatalf("more than one line: %q", line)
		}
		rest := strings.TrimSuffix(strings.TrimPrefix(line, "ExecStart=/x "), " end\n")
		if got, ok := unquote(rest); !ok || got != arg {
			t.Errorf("%q became %q, which reads as %q", arg, rest, got)
		}
	})
}

// unquote reads one word of a command line.
func unquote(word string) (string, bool) {
	word = strings.NewReplacer("%%", "%", "$$", "$").Replace(word)
	quoted := strings.HasPrefix(word, `"`)
	if quoted {
		if len(word) < 2 || !strings.HasSuffix(word, `"`) {
			return "", false
		}
		word = word[1 : len(word)-1]
	}
	var out bytes.Buffer
	for i := 0; i < len(word); i++ {
		switch c := word[i]; {
		case strings.IndexByte(" \t\"'", c) >= 0 && !quoted, c == '"':
			return "", false
		case c == '\\' && strings.HasPrefix(word[i:], `\x`) && len(word) >= i+4:
			const hex = "0123456789abcdef"
			out.WriteByte(byte(strings.IndexByte(hex, word[i+2])<<4 | strings.IndexByte(hex, word[i+3])))
			i += 3
		case c == '\\' && i+1 < len(word):
			i++
			out.WriteByte(word[i])
		default:
			out.WriteByte(c)
		}
	}
	return out.String(), true
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"svc", "a", "0", "my-svc_2.test", strings.Repeat("x", 64)} {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{
		"", ".", "..", ".svc", "-svc", "_svc", "a/b", "a b", "a:b", "a@b", "a%b", "é", "a\x00", "svc.service", strings.Repeat("x", 65),
	} {
		if err := CheckName(name); !errors.Is(err, ErrName) {
			t.Errorf("CheckName(%q) = %v, want ErrName", name, err)
		}
	}
}

// Every descriptor has room in the store, also those of sockets that are added later.
func TestUnitStore(t *testing.T) {
	t.Parallel()
	for descriptors, want := range map[int]string{0: "512", 200: "512", 300: "600"} {
		text, err := Unit{Name: "svc", Binary: "/z", Config: "/c", Descriptors: descriptors}.Text()
		if err != nil || !strings.Contains(text, "\nFileDescriptorStoreMax="+want+"\n") {
			t.Errorf("%d descriptors, want %s: %v\n%s", descriptors, want, err, text)
		}
	}
}
