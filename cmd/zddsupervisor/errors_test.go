package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// errorsPage has every error that a command line alone can cause, as the user sees it.
const errorsPage = "testdata/errors.txt"

// wrong are command lines. DIR is a directory that is made for them: there is a socket on which something else than a supervisor
// answers in DIR/other, and a file DIR/file.
var wrong = []string{
	"reloda", "nonsense", "--nonsense", "reload now", "reload --nonsense", "status --watch=x",
	"status --name x --control y", "status --name ../x", "status --name nobody-has-this-name", "status --control DIR", "status --control DIR/file", "status --control DIR/other",
	"reload --control DIR", "reload --no-wait --control DIR", "promote --control DIR", "abort --control DIR", "upgrade --control DIR",
	"deploy", "deploy a b", "deploy ../x", "deploy .hidden", "deploy --from DIR/", "deploy v1 --control DIR", "rollback a b", "rollback ../x", "rollback --control DIR",
	"history -n -1", "history --state-directory DIR", "history --state-directory DIR/none", "history --state-directory DIR --name x",
	"completion", "completion tcsh", "doctor --name x --config y",
	"unit", "unit --force -- /bin/true", "unit --template --config x", "unit --template -- /bin/true",
	"unit --install --socket-unit --config x", "unit --name @ -- /bin/true", "unit --runtime-directory /x -- /bin/true",
	"unit --config DIR/none", "unit --config DIR", "unit --listen", "unit --listen nonsense -- x", "unit --listen :99999 -- x", "unit --listen tcp://host -- x", "unit --listen ::1 -- x",
	"unit --listen a=:1 --listen a=:2 -- x", "unit --listen :1?color=red -- x", "unit --listen :1?backlog=x -- x", "unit --listen unix://x -- x", "unit --listen tcp6://127.0.0.1:1 -- x",
	"preset ngnix", "preset nginx haproxy", "unit --preset ngnix -- x", "unit --preset nginx --mode shared --listen :1 -- x", "unit --pass ngnix -- x",
	"unit --pass nginx --environment NGINX=3 -- x", "unit --pass php-fpm --listen udp://:1 -- x", "unit --ready-by einhorn -- x", "unit --mode fast -- x", "unit --ready-by magic -- x", "unit --ready-by http -- x", "unit --ready-timeout soon -- x", "unit --ready-timeout 0s -- x",
	"unit --drain-signal SIGNAL -- x", "unit --handoff-canary 200% -- x", "unit --handoff-canary much -- x", "unit --handoff-soak -1s -- x", "unit --user nobody-has-this-name -- x",
	"unit --limits files=1 -- x", "unit --limits nofile=many -- x", "unit --umask 9 -- x", "unit --metrics-listen x -- x", "unit --log-format loud -- x", "unit --environment x -- x",
	"unit --releases-directory x -- x", "unit --releases-keep 0 -- x", "unit --hooks-timeout 0s -- x", "unit --handoff-keepalive carry -- x",
	"drill", "drill --url http://127.0.0.1:1/", "drill --url ftp://x --reload y", "drill --url http://192.0.2.1/ --reload y", "drill --url http://127.0.0.1:1/ --reload y --only some",
	"drill --url http://127.0.0.1:1/ --reload y --rate 0", "drill --url http://127.0.0.1:1/ --reload y --rate 100000", "drill --url http://127.0.0.1:1/ --reload y --html DIR/none/x",
	"drill --url http://127.0.0.1:1/ --reload y --header x", "drill --url http://127.0.0.1:1/ --reload y --times 0", "drill --url tcp://127.0.0.1:1 --reload y --data x",
}

// Each of them is one sentence that names the thing and what is wrong with it, and its exit status is that of wrong usage or of no
// supervisor. The page shows their texts, for somebody to read through.
func TestErrorsOfCommandLines(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("XDG_STATE_HOME", dir)
	t.Setenv("NOTIFY_SOCKET", "")
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "other"))
	if err != nil {
		t.Fatal(err)
	}
	stranger := http.Server{Handler: http.NotFoundHandler()}
	defer stranger.Close()
	go stranger.Serve(l)
	raw := regexp.MustCompile(`%!|\*[a-z]+\.[A-Z]|errno|goroutine|0x[0-9a-f]{6}|<nil>`)
	var page strings.Builder
	for _, line := range wrong {
		status, stdout, stderr := oneCommand(t, strings.Fields(strings.ReplaceAll(line, "DIR", dir))...)
		fmt.Fprintf(&page, "$ zddsupervisor %s\n%s[%d]\n\n", line, strings.ReplaceAll(stderr, dir, "DIR"), status)
		if status != exitUsage && status != exitNotRunning && status != exitFailed || stderr == "" || stdout != "" {
			t.Errorf("%s: exit status %d\n%s\n%s", line, status, stdout, stderr)
		}
		if raw.MatchString(stderr) || !strings.HasPrefix(stderr, "zddsupervisor: ") {
			t.Errorf("%s: %s", line, stderr)
		}
	}
	if *update {
		if err := os.WriteFile(errorsPage, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(errorsPage)
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Split(page.String(), "\n")
	for i, line := range strings.Split(string(want), "\n") {
		if i >= len(said) || said[i] != line {
			t.Errorf("%s is not what is said, from line %d on: %q and not %q; run this test with -update and read what has changed",
				errorsPage, i+1, line, strings.Join(said[min(i, len(said)):min(i+1, len(said))], ""))
			break
		}
	}
}
