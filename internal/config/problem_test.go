package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each mistake has to be told at its place and in words that help. FILE stands
// for the configuration file, and DIR for its directory.
func TestProblems(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "bad.env", "A=1\n\nB\n")
	write(t, dir, "release.env", "A={release}\n")
	write(t, dir, "releases/1/app", "")
	if err := os.Symlink("elsewhere", filepath.Join(dir, "current")); err != nil {
		t.Fatal(err)
	}
	const ok = `command = ["app"]` + "\n" // line 1 of those that need nothing else
	for name, tt := range map[string]struct {
		file string
		args []string
		want string // lines
	}{
		// The document.
		"syntax":              {file: ok + "name =\n", want: `FILE:2: unexpected character U+000A at start of value`},
		"key twice":           {file: ok + "\nname = 'a'\nname = 'b'", want: `FILE:4: name: key name is already defined`},
		"table twice":         {file: ok + "[drain]\n[drain]\n", want: `FILE:3: drain: table drain already exists`},
		"unknown key":         {file: ok + "directry = '/'", want: `FILE:2: unknown key "directry" (did you mean "directory"?)`},
		"unknown, no idea":    {file: ok + "zzzzzzzz = '/'", want: `FILE:2: unknown key "zzzzzzzz"`},
		"unknown in table":    {file: ok + "[ready]\ntimout = '1s'", want: `FILE:3: unknown key "ready.timout" (did you mean "ready.timeout"?)`},
		"missing table":       {file: ok + "signal = 'SIGTERM'", want: `FILE:2: unknown key "signal" (did you mean "drain.signal"?)`},
		"unknown table":       {file: ok + "[redy]\n", want: `FILE:2: unknown table [redy] (did you mean "ready"?)`},
		"in other table":      {file: ok + "[handoff]\nlinger = '1s'", want: `FILE:3: unknown key "handoff.linger"`},
		"dotted unknown":      {file: ok + "ready.buy = 'fd'", want: `FILE:2: unknown key "ready.buy" (did you mean "ready.by"?)`},
		"in inline table":     {file: ok + "ready = { buy = 'fd' }", want: `FILE:2: unknown key "ready.buy" (did you mean "ready.by"?)`},
		"in deep table":       {file: ok + "[ready.x]\ny = 1", want: `FILE:2: unknown table [ready.x] (did you mean "ready"?)`},
		"list of tables":      {file: ok + "[[ready]]\nby = 'fd'", want: `FILE:2: ready: there is one such table only: write [ready]`},
		"table for a key":     {file: ok + "[name]\n", want: `FILE:2: name: is a table, but must be a string in quotes`},
		"key for a table":     {file: ok + "ready = 'fd'", want: `FILE:2: ready: is a string, but must be a table: write [ready] before its keys`},
		"misspelt command":    {file: "\ncomand = ['app']", want: "FILE:2: unknown key \"comand\" (did you mean \"command\"?)\nFILE: command: is missing; write command = [\"PROGRAM\", \"ARGUMENT\"], or the command after \"--\""},
		"several, in order":   {file: "drain.signal = 'x'\nname = '/'\n" + ok + "umask = '9'", want: "FILE:1: drain.signal: \"x\" is not the name of a signal, such as SIGTERM, SIGQUIT or SIGUSR1\nFILE:2: name: not a usable name: \"/\": it must begin with a letter or a digit\nFILE:4: umask: \"9\" is not an octal number from 0000 to 0777"},
		"NUL":                 {file: ok + `user = "a\u0000b"`, want: `FILE:2: user: must not have a NUL character in it`},
		"NUL in command":      {file: `command = ["app", "a\u0000b"]`, want: `FILE:1: command: must not have a NUL character in it`},
		"NUL in variable":     {file: ok + `environment = { A = "\u0000" }`, want: `FILE:2: environment.A: must not have a NUL character in it`},
		"byte order, no TOML": {file: "\xff\xfe", want: `FILE:1: invalid character at start of key: U+00FF 'ÿ'`},

		// Types.
		"number for time":       {file: ok + "[ready]\n\ntimeout = 90", want: `FILE:4: ready.timeout: is a whole number, but must be a time with its unit in quotes, such as "90s" or "1m30s"`},
		"fraction":              {file: ok + "drain.timeout = 1.5", want: `FILE:2: drain.timeout: is a number with a fraction, but must be a time with its unit in quotes, such as "90s" or "1m30s"`},
		"time of day":           {file: ok + "drain.timeout = 07:32:00", want: `FILE:2: drain.timeout: is a date or time, but must be a time with its unit in quotes, such as "90s" or "1m30s"`},
		"string for number":     {file: ok + "drain.generations = '4'", want: `FILE:2: drain.generations: is a string, but must be a whole number without quotes`},
		"string for bool":       {file: ok + "fail-fast = 'yes'", want: `FILE:2: fail-fast: is a string, but must be true or false, without quotes`},
		"bool for string":       {file: ok + "user = true", want: `FILE:2: user: is true or false, but must be a string in quotes`},
		"string for command":    {file: `command = "app --flag"`, want: "FILE:1: command: is a string, but must be a list with a program and its arguments, such as [\"nginx\", \"-t\"]"},
		"number in command":     {file: "command = [\n'app',\n8080,\n]", want: "FILE:3: command: has a whole number in it, but must be a list with a program and its arguments, such as [\"nginx\", \"-t\"]; write it in quotes"},
		"number for umask":      {file: ok + "umask = 0o022", want: `FILE:2: umask: is a whole number, but must be an octal number in quotes, such as "0022"`},
		"number in environment": {file: ok + "[environment]\nPORT = 80", want: `FILE:3: environment.PORT: is a whole number, but must be a string in quotes`},
		"list for environment":  {file: ok + "environment = ['A=1']", want: `FILE:2: environment: is a list, but must be a table of strings, such as { KEY = "value" }`},
		"deep environment":      {file: ok + "environment.A.B = 'x'", want: `FILE:2: unknown key "environment.A.B" (did you mean "environment"?)`},

		// Values.
		"empty command":     {file: "command = []", want: `FILE:1: command: names no program; it must be a list with a program and its arguments, such as ["nginx", "-t"]`},
		"empty program":     {file: "command = ['']", want: `FILE:1: command: names no program; it must be a list with a program and its arguments, such as ["nginx", "-t"]`},
		"no command":        {file: "", want: `FILE: command: is missing; write command = ["PROGRAM", "ARGUMENT"], or the command after "--"`},
		"time without unit": {file: ok + "ready.timeout = '90'", want: `FILE:2: ready.timeout: "90" is not a time; write a number with its unit, such as 90s, 1m30s or 500ms`},
		"negative time":     {file: ok + "drain.timeout = '-1s'", want: `FILE:2: drain.timeout: "-1s" is less than nothing`},
		"no time at all":    {file: ok + "ready.timeout = '0s'", want: `FILE:2: ready.timeout: must be more than nothing`},
		"signal":            {file: ok + "drain.signal = 'SIGFOO'", want: `FILE:2: drain.signal: "SIGFOO" is not the name of a signal, such as SIGTERM, SIGQUIT or SIGUSR1`},
		"signal number":     {file: ok + "drain.signal = '15'", want: `FILE:2: drain.signal: "15" is not the name of a signal, such as SIGTERM, SIGQUIT or SIGUSR1`},
		"no generations":    {file: ok + "drain.generations = 0", want: `FILE:2: drain.generations: "0" is not a whole number from 1 to 1000`},
		"choice":            {file: ok + "ready.by = 'notfy'", want: `FILE:2: ready.by: "notfy" is not one of ["notify" "fd" "http" "accept" "exec" "einhorn" "delay"] (did you mean "notify"?)`},
		"cgroup":            {file: ok + "cgroup = 'on'", want: `FILE:2: cgroup: "on" is not one of ["auto" "off"]`},
		"empty text":        {file: ok + "user = ''", want: `FILE:2: user: must not be empty`},
		"empty path":        {file: ok + "directory = ''", want: `FILE:2: directory: must not be empty`},
		"empty environment": {file: ok + "environment-file = ['-']", want: `FILE:2: environment-file: must not be empty`},
		"unknown limit":     {file: ok + "[limits]\nnofiles = 1", want: `FILE:3: limits.nofiles: there is no limit "nofiles" (did you mean "nofile"?); there are as, core, cpu, data, fsize, locks, memlock, msgqueue, nice, nofile, nproc, rss, rtprio, rttime, sigpending, stack`},
		"limit":             {file: ok + "limits.nofile = 'many'", want: `FILE:2: limits.nofile: "many" is not a number, "infinity", or "SOFT:HARD"`},
		"negative limit":    {file: ok + "limits.nofile = -1", want: `FILE:2: limits.nofile: "-1" is not a number, "infinity", or "SOFT:HARD"`},
		"soft above hard":   {file: ok + "limits.nofile = 'infinity:5'", want: `FILE:2: limits.nofile: "infinity:5" has a soft limit above the hard one`},
		"supervisor's own":  {file: ok + "environment.LISTEN_FDS = '1'", want: `FILE:2: environment.LISTEN_FDS: LISTEN_FDS is set by the supervisor itself`},
		"name of command":   {file: `command = ["/bin/my app"]`, want: `FILE: name: is missing, and the command's is not a usable name: "my app": ' ' is not one of letters, digits, '.', '_' and '-'; set name`},
		"long directory":    {file: ok + "runtime-directory = '/" + strings.Repeat("x", 90) + "'", want: `FILE:2: runtime-directory: /` + strings.Repeat("x", 90) + ` has more than 79 bytes, which leaves no room for the names of sockets in it`},

		// Sockets.
		"no listen":                {file: ok + "[[socket]]\nname = 'a'", want: `FILE:2: socket.listen: is missing or empty; write for example listen = "tcp://:8080"`},
		"single socket":            {file: ok + "[socket]\nlisten = ':1'", want: "FILE:2: socket: must be a list of tables: write [[socket]] before the keys of each one"},
		"socket of strings":        {file: ok + "socket = [':1']", want: `FILE:2: socket: must be a list of tables: write [[socket]] before the keys of each one`},
		"address":                  {file: ok + "[[socket]]\nname = 'a'\nlisten = 'tcpp://:1'", want: `FILE:4: socket.listen: unknown network "tcpp" `},
		"unknown option":           {file: ok + "[[socket]]\nlisten = ':1'\nbaklog = 1", want: `FILE:4: unknown key "baklog" in a [[socket]] (did you mean "socket.backlog"?)`},
		"option type":              {file: ok + "[[socket]]\nlisten = ':1'\nbacklog = '1'", want: `FILE:4: socket.backlog: is a string, but must be a whole number without quotes`},
		"option value":             {file: ok + "[[socket]]\nlisten = ':1'\nname = 'a'\nbacklog = -1", want: `FILE:5: socket.backlog: "-1" is not a number from `},
		"option that does not fit": {file: ok + "[[socket]]\nlisten = ':1'\nowner = 'root'", want: `FILE:4: socket.owner: option "owner" `},
		"option in listen":         {file: ok + "[[socket]]\nbacklog = 1\nlisten = ':1?baklog=1'", want: `FILE:4: socket.listen: unknown option "baklog" `},
		"option twice":             {file: ok + "[[socket]]\nlisten = ':1?backlog=1'\nbacklog = 1", want: `FILE:4: socket.backlog: option "backlog" is given twice`},
		"name twice":               {file: ok + "[[socket]]\nname = 'a'\nlisten = ':1'\n[[socket]]\nlisten = ':2'\nname = 'a'", want: `FILE:7: socket.name: the name "a" is `},
		"address twice":            {file: ok + "[[socket]]\nname = 'a'\nlisten = ':1'\n[[socket]]\nlisten = 'tcp://0.0.0.0:1'\nname = 'b'", want: `FILE:6: socket.listen: the address is taken `},
		"several sockets":          {file: ok + "socket = [{listen = 'x'}, {listen = ':1'},\n {listen = 'y'}]", want: "FILE:2: socket.listen: \"x\" has no port; \nFILE:3: socket.listen: \"y\" has no port; "},
		"mode":                     {file: ok + "mode = 'steerd'\n[[socket]]\nlisten = ':1'", want: `FILE:2: mode: "steerd" is not one of ["steered" "shared"] (did you mean "steered"?)`},
		"listen flag":              {file: ok, args: []string{"--listen", "a=:1?backlog=x", "--listen", "b=:2"}, want: `--listen: "a=:1?backlog=x": option `},
		"listen flag twice":        {file: ok, args: []string{"--listen", ":1", "--listen", ":1"}, want: `--listen: ":1": the name "tcp-1" is `},
		"bad under a flag":         {file: ok + "[[socket]]\nlisten = 'x'", args: []string{"--listen", ":1"}, want: `FILE:3: socket.listen: "x" `},

		// Keys together.
		"forgot ready.by":   {file: ok + "[ready]\ndelay = '2s'", want: `FILE:3: ready.delay: is only for ready.by = "delay", but that is "notify"`},
		"exec, no command":  {file: ok + "[ready]\nby = 'exec'", want: `FILE:3: ready.by: is "exec", but there is no ready.command`},
		"delay too long":    {file: ok + "[ready]\nby = 'delay'\ndelay = '2m'", want: `FILE:4: ready.delay: is 2m0s, which is not within the ready.timeout of 1m30s`},
		"wrong fd":          {file: ok + "[[socket]]\nlisten = ':1'\n[ready]\nby = 'fd'\nfd = 3", want: `FILE:6: ready.fd: is 3, but the first descriptor after the sockets is 4; leave it out and write {fd:ready} in the command`},
		"fd's name":         {file: ok + "[[socket]]\nlisten = 'ready=:1'\n[ready]\nby = 'fd'", want: `FILE:5: ready.by: is "fd", for which {fd:ready} is needed; give the socket of that name another one`},
		"group alone":       {file: ok + "group = 'root'", want: `FILE:2: group: needs user to be set too`},
		"unknown user":      {file: ok + "group = 'root'\nuser = 'nobody-at-all'", want: `FILE:3: user: there is no user "nobody-at-all"`},
		"unknown group":     {file: ok + "group = 'nobody-at-all'\nuser = 'root'", want: `FILE:2: group: there is no group "nobody-at-all"`},
		"environment file":  {file: ok + "environment-file = ['none.env']", want: `FILE:2: environment-file: DIR/none.env cannot be read: no such file or directory`},
		"environment line":  {file: ok + "environment-file = ['bad.env']", want: `DIR/bad.env:3: "B" is not KEY=VALUE`},
		"current alone":     {file: ok + "releases.current = 'current'", want: `FILE:2: releases.current: needs releases.directory to be set too`},
		"directory alone":   {file: ok + "releases.directory = 'releases'", want: `FILE:2: releases.directory: needs releases.current to be set too`},
		"keep alone":        {file: ok + "releases.keep = 3", want: `FILE:2: releases.keep: needs releases.directory and releases.current to be set too`},
		"rollback alone":    {file: ok + "handoff.auto-rollback = true", want: `FILE:2: handoff.auto-rollback: needs releases.directory and releases.current to be set too`},
		"hook with release": {file: ok + "hooks.after-live = ['a', '{release}']", want: `FILE:2: hooks.after-live: {release} cannot be replaced: there is no [releases] in the configuration`},
		"current elsewhere": {file: ok + "[releases]\ndirectory = 'releases'\ncurrent = 'current'", want: `FILE:4: releases.current: the current release cannot be told: DIR/current points to DIR/elsewhere, which is not in DIR/releases; make it a symbolic link to a directory in DIR/releases, with ln -sfnT`},
		"no current":        {file: ok + "[releases]\ndirectory = 'releases'\ncurrent = 'none'", want: `FILE:4: releases.current: the current release cannot be told: DIR/none: no such file or directory; make it a symbolic link to a directory in DIR/releases, with ln -sfnT`},

		// Requests.
		"relative path":            {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[probe]\npath = 'health'", want: `FILE:6: probe.path: "health" is not a path; it must begin with "/"`},
		"path with a space":        {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[probe]\npath = '/a b'", want: `FILE:6: probe.path: "/a b" has a character that cannot be sent; write it as in a URL, %20 for a space`},
		"path with an end of line": {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[ready]\nby = 'http'\npath = \"/\\r\\nX: y\"", want: `FILE:7: ready.path: "/\r\nX: y" has a character that cannot be sent; write it as in a URL, %20 for a space`},
		"path with a fragment":     {file: ok + "[[socket]]\nlisten = ':1'\n[probe]\npath = '/a#b'", want: `FILE:5: probe.path: "/a#b" has a character that cannot be sent; write it as in a URL, %20 for a space`},
		"path that ends early":     {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[probe]\npath = '/%2'", want: `FILE:6: probe.path: "/%2" is not a path: invalid URL escape "%2"`},
		"host with a path":         {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[probe]\npath = '/'\nhost = 'a.example/x'", want: `FILE:7: probe.host: "a.example/x" is not a host, such as app.example.org or app.example.org:8080`},
		"host of a port":           {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[ready]\nby = 'http'\nhost = ':80'", want: `FILE:7: ready.host: ":80" is not a host, such as app.example.org or app.example.org:8080`},
		"empty host":               {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[ready]\nby = 'http'\nhost = ''", want: `FILE:7: ready.host: "" is not a host, such as app.example.org or app.example.org:8080`},
		"status":                   {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[probe]\npath = '/'\nstatus = 99", want: `FILE:7: probe.status: "99" is not a whole number from 100 to 599`},
		"status in quotes":         {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[probe]\npath = '/'\nstatus = '2xx'", want: `FILE:7: probe.status: is a string, but must be a whole number without quotes`},
		"no probes":                {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[probe]\npath = '/'\ncount = 0", want: `FILE:7: probe.count: "0" is not a whole number from 1 to 1000`},
		"no time for a probe": {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[probe]\npath = '/'\ntimeout = '0s'\ninterval = '0s'", want: `FILE:7: probe.timeout: must be more than nothing
FILE:8: probe.interval: must be more than nothing`},
		"probe without a path": {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[probe]\ncount = 2\nsocket = 'x'", want: `FILE:6: probe.count: is only for a probe, and there is no probe.path
FILE:7: probe.socket: is only for a probe, and there is no probe.path`},
		"flag of no probe": {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n", args: []string{"--probe-status=200"}, want: `--probe-status: is only for a probe, and there is no probe.path`},
		"forgot http": {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[ready]\npath = '/'\nhost = 'a'\nsocket = 'http'\ninterval = '1s'", want: `FILE:6: ready.path: is only for ready.by = "http", but that is "notify"
FILE:7: ready.host: is only for ready.by = "http", but that is "notify"
FILE:8: ready.socket: is only for ready.by = "http" or "accept", but that is "notify"
FILE:9: ready.interval: is only for ready.by = "http" or "accept" or "exec", but that is "notify"`},
		"path for accept": {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[ready]\nby = 'accept'\npath = '/'", want: `FILE:7: ready.path: is only for ready.by = "http", but that is "accept"`},

		// Sockets that can be steered.
		"http without a socket":     {file: ok + "ready.by = 'http'", want: `FILE:2: ready.by: is "http", which needs a socket that can be steered, and there is none; add one on tcp without mode = "shared" and reuseport = true, or one of systemd with mode = "steered"`},
		"accept on a shared socket": {file: ok + "ready.by = 'accept'\n[[socket]]\nlisten = ':1'\nmode = 'shared'", want: `FILE:2: ready.by: is "accept", which needs a socket that can be steered, and there is none; add one on tcp without mode = "shared" and reuseport = true, or one of systemd with mode = "steered"`},
		"all shared":                {file: ok + "mode = 'shared'\n[[socket]]\nname = 'http'\nlisten = ':1'\n[probe]\npath = '/'", want: `FILE:7: probe.path: needs a socket that can be steered, and there is none; add one on tcp without mode = "shared" and reuseport = true, or one of systemd with mode = "steered"`},
		"shared by a flag":          {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = '5%:1s'", args: []string{"--mode=shared"}, want: `FILE:6: handoff.canary: needs a socket that can be steered, and there is none; add one on tcp without mode = "shared" and reuseport = true, or one of systemd with mode = "steered"`},
		"reuseport":                 {file: ok + "[[socket]]\nlisten = ':1'\nreuseport = true\n[probe]\npath = '/'", want: `FILE:6: probe.path: needs a socket that can be steered, and there is none; add one on tcp without mode = "shared" and reuseport = true, or one of systemd with mode = "steered"`},
		"systemd does not say":      {file: ok + "mode = 'steered'\n[[socket]]\nlisten = 'systemd:a'\n[probe]\npath = '/'", want: `FILE:6: probe.path: needs a socket that can be steered, and there is none; add one on tcp without mode = "shared" and reuseport = true, or one of systemd with mode = "steered"`},
		"unknown socket": {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[[socket]]\nname = 'adm'\nlisten = '@x'\n[ready]\nby = 'http'\nsocket = 'htp'\n[probe]\npath = '/'\nsocket = 'x'", want: `FILE:10: ready.socket: there is no socket "htp" (did you mean "http"?); there are http, adm
FILE:13: probe.socket: there is no socket "x"; there are http, adm`},
		"socket of none":           {file: ok + "[probe]\npath = '/'\nsocket = 'x'", want: `FILE:4: probe.socket: there is no socket "x"; there are no sockets`},
		"unix socket":              {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[[socket]]\nname = 'adm'\nlisten = '@x'\n[probe]\npath = '/'\nsocket = 'adm'", want: `FILE:10: probe.socket: the socket "adm" cannot be steered, so that the old generation may get the request; name one on tcp without mode = "shared" and reuseport = true, or one of systemd with mode = "steered"`},
		"broken socket":            {file: ok + "[[socket]]\nlisten = 'x'\n[ready]\nby = 'http'\n[probe]\npath = '/'\nsocket = 'y'\n[handoff]\ncanary = '5%:1s'", want: `FILE:3: socket.listen: "x" `},
		"fd after a broken socket": {file: ok + "[[socket]]\nlisten = 'x'\n[ready]\nby = 'fd'\nfd = 4", want: `FILE:3: socket.listen: "x" `},
		"broken listen flag":       {file: ok + "environment.A = '{fd:a}'\nready.by = 'http'", args: []string{"--listen=x"}, want: `--listen: "x": "x" `},

		// Canaries.
		"canary, number":              {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = '5'", want: `FILE:6: handoff.canary: "5" is not a share in percent; write a share such as "5%", or steps such as "5%:30s, 25%:30s"`},
		"canary, no number":           {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = '%'", want: `FILE:6: handoff.canary: "%" is not a share in percent; write a share such as "5%", or steps such as "5%:30s, 25%:30s"`},
		"canary, nothing":             {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = ''", want: `FILE:6: handoff.canary: "" is not a share in percent; write a share such as "5%", or steps such as "5%:30s, 25%:30s"`},
		"canary, nothing for anybody": {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = '0%'", want: `FILE:6: handoff.canary: "0%" is not between 0% and 100%; write a share such as "5%", or steps such as "5%:30s, 25%:30s"`},
		"canary, all":                 {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = '100%'", want: `FILE:6: handoff.canary: "100%" is not between 0% and 100%; write a share such as "5%", or steps such as "5%:30s, 25%:30s"`},
		"canary, NaN":                 {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = 'nan%'", want: `FILE:6: handoff.canary: "nan%" is not between 0% and 100%; write a share such as "5%", or steps such as "5%:30s, 25%:30s"`},
		"canary, time without unit":   {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = '5%:30'", want: `FILE:6: handoff.canary: "5%:30" does not have a time after its colon; write a share such as "5%", or steps such as "5%:30s, 25%:30s"`},
		"canary, no time":             {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = '5%:'", want: `FILE:6: handoff.canary: "5%:" does not have a time after its colon; write a share such as "5%", or steps such as "5%:30s, 25%:30s"`},
		"canary, zero time":           {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = '5%:0s'", want: `FILE:6: handoff.canary: "5%:0s" does not have a time after its colon; write a share such as "5%", or steps such as "5%:30s, 25%:30s"`},
		"canary, same share":          {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = '5%:1s, 5%:2s'", want: `FILE:6: handoff.canary: "5%:2s" is not more than the step before it; write a share such as "5%", or steps such as "5%:30s, 25%:30s"`},
		"canary, list":                {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = ['5%']", want: `FILE:6: handoff.canary: is a list, but must be a string in quotes`},
		"canary, no canary-time":      {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = '5%:1s, 10%'", want: `FILE:6: handoff.canary: has a step that does not say how long it lasts; write it as in "5%:30s", or set handoff.canary-time`},
		"canary, wrong and a time":    {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = '5'\ncanary-time = '1s'", want: `FILE:6: handoff.canary: "5" is not a share in percent; write a share such as "5%", or steps such as "5%:30s, 25%:30s"`},
		"canary-time alone":           {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary-time = '1s'", want: `FILE:6: handoff.canary-time: is only for a canary, and there is no handoff.canary`},
		"canary-time unused":          {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = '5%:1s'\ncanary-time = '1s'", want: `FILE:7: handoff.canary-time: is not used: every step of handoff.canary says itself how long it lasts; leave it out`},
		"canary-time zero":            {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n[handoff]\ncanary = '5%'\ncanary-time = '0s'", want: `FILE:7: handoff.canary-time: must be more than nothing`},
		"flag canary-time unused":     {file: ok + "[[socket]]\nname = 'http'\nlisten = ':1'\n", args: []string{"--handoff-canary=5%:1s", "--handoff-canary-time=1s"}, want: `--handoff-canary-time: is not used: every step of handoff.canary says itself how long it lasts; leave it out`},

		// Times of a handoff.
		"less than no time": {file: ok + "settle.max = '-1s'\nhandoff.soak = '-1s'\ndrain.linger = '-1s'", want: `FILE:2: settle.max: "-1s" is less than nothing
FILE:3: handoff.soak: "-1s" is less than nothing
FILE:4: drain.linger: "-1s" is less than nothing`},

		// Placeholders.
		"unknown fd":          {file: "command = ['app', '{fd:htp}']\n[[socket]]\nname = 'http'\nlisten = ':1'\n[[socket]]\nname = 'adm'\nlisten = ':2'", want: `FILE:1: command: {fd:htp} cannot be replaced: no socket has that name; there are http, adm`},
		"fd not inherited":    {file: "command = ['app', '{fd:http}']\n[[socket]]\nname = 'http'\nlisten = ':1'\npass = 'adopt'", want: `FILE:1: command: {fd:http} cannot be replaced: the service does not inherit that socket, since its pass is not "fd"`},
		"no sockets":          {file: ok + "environment.A = '{fd:a}'", want: `FILE:2: environment.A: {fd:a} cannot be replaced: no socket has that name; there are no sockets`},
		"no release":          {file: ok + "check.command = ['x', '{release}']", want: `FILE:2: check.command: {release} cannot be replaced: there is no [releases] in the configuration`},
		"fd of broken socket": {file: "command = ['app', '{fd:a}']\n[[socket]]\nname = 'a'", want: `FILE:2: socket.listen: is missing or empty; write for example listen = "tcp://:8080"`},

		// Flags.
		"flag's time":       {file: ok, args: []string{"--ready-timeout=90"}, want: `--ready-timeout: "90" is not a time; write a number with its unit, such as 90s, 1m30s or 500ms`},
		"flag's variable":   {file: ok, args: []string{"--environment=A"}, want: `--environment: "A" is not KEY=VALUE`},
		"flag's limit":      {file: ok, args: []string{"--limits=nofile"}, want: `--limits: "nofile" is not NAME=LIMIT`},
		"flag's quotes":     {file: ok, args: []string{"--check-command=a 'b"}, want: `--check-command: has a quotation mark without its other one`},
		"flag's bool":       {file: ok, args: []string{"--fail-fast=maybe"}, want: `--fail-fast: "maybe" is neither true nor false`},
		"flag's empty":      {file: ok, args: []string{"--check-command="}, want: `--check-command: names no program; it must be a list with a program and its arguments, such as ["nginx", "-t"]`},
		"empty argument":    {file: ok, args: []string{"--", ""}, want: `the command: names no program; it must be a list with a program and its arguments, such as ["nginx", "-t"]`},
		"file before flags": {file: ok + "umask = 'x'", args: []string{"--name=/"}, want: "FILE:2: umask: \"x\" is not an octal number from 0000 to 0777\n--name: not a usable name: \"/\": it must begin with a letter or a digit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := write(t, dir, strings.ReplaceAll(name, "/", "-")+".toml", tt.file)
			c, err := source(t, file, tt.args...).Load()
			var problems Problems
			if c != nil || !errors.As(err, &problems) {
				t.Fatalf("got %+v, %v, want Problems", c, err)
			}
			got := strings.NewReplacer(file, "FILE", dir, "DIR").Replace(err.Error())
			if !linesMatch(got, tt.want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, tt.want)
			}
		})
	}
}

// linesMatch compares line by line. A line of want that ends in a space is only
// the beginning: the rest is worded by other packages.
func linesMatch(got, want string) bool {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	return slices.EqualFunc(g, w, func(g, w string) bool {
		return g == w || strings.HasSuffix(w, " ") && strings.HasPrefix(g, w)
	})
}

// Without a file there is none to name.
func TestProblemsWithoutFile(t *testing.T) {
	t.Parallel()
	if _, err := source(t, "").Load(); err == nil || !strings.HasPrefix(err.Error(), "command: is missing") {
		t.Errorf("got %v", err)
	}
	if _, err := (&Source{}).Load(); err == nil || !strings.HasPrefix(err.Error(), "command: is missing") {
		t.Errorf("zero Source: %v", err)
	}
}

// A supervisor without root needs to be told where its directories are.
func TestProblemNamesVariable(t *testing.T) {
	t.Parallel()
	_, err := directories()[0].choose("app", false, env())
	if err == nil || !strings.Contains(err.Error(), "XDG_RUNTIME_DIR") {
		t.Errorf("got %v", err)
	}
}
