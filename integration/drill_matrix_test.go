package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/rootfs"
	"github.com/zddsupervisor/zddsupervisor/internal/drill"
)

// drillRuns is how often each case must come out as said, one run after the other.
const drillRuns = 3

// spareRuns is how many runs of a case may come to no verdict because this machine was too busy: it runs other things too.
const spareRuns = 10

// drillCase is one way to take a copy of a service that works for 300 ms out from behind nginx, and what the drill must say of it.
type drillCase struct {
	name string
	// killSignal is how the copies are stopped: SIGTERM, after which they finish what they have accepted and refuse all else, or SIGKILL, as one dies that
	// does not know of signals.
	killSignal string
	// retry has nginx send a request to the other copy where the first fails.
	retry bool
	// second is the other backend that nginx has after its configuration is read again: "" for none, "copy" for the copy that is there,
	// "refuses" for one where nobody listens, "swallows" for one that accepts and never answers.
	second string
	// reload is the command, with PROXY and COPY for the names of the units, and FILE for nginx's configuration with the second backend.
	reload string
	want   drill.Verdict
	// few bounds the failures of a case that loses few.
	few int
}

const (
	stopCopy       = "systemctl stop COPY"
	changeBackends = "cp FILE.next FILE && systemctl reload PROXY"
	// An old worker of nginx finishes its requests first.
	outOfRotation = "old=$(pgrep -P $(cat PIDFILE)); " + changeBackends + "; while kill -0 $old 2>/dev/null; do sleep 0.05; done; " + stopCopy
)

func drillCases() []drillCase {
	return []drillCase{
		{name: "naive, retried", killSignal: "SIGKILL", retry: true, reload: stopCopy, want: drill.Masked},
		{name: "graceful, retried", killSignal: "SIGTERM", retry: true, reload: stopCopy, want: drill.Clean},
		{name: "naive", killSignal: "SIGKILL", reload: stopCopy, want: drill.Lost},
		// The naive one loses all that it has, 30 at this rate.
		{name: "graceful", killSignal: "SIGTERM", reload: stopCopy, want: drill.Lost, few: 15},
		{name: "out of rotation first", killSignal: "SIGTERM", reload: outOfRotation, want: drill.Clean},
		{name: "dead backend", killSignal: "SIGTERM", second: "refuses", reload: changeBackends, want: drill.Lost},
		{name: "dead backend, retried", killSignal: "SIGTERM", retry: true, second: "refuses", reload: changeBackends, want: drill.Clean},
		{name: "silent backend, retried", killSignal: "SIGTERM", retry: true, second: "swallows", reload: changeBackends, want: drill.Masked},
		{name: "nothing happens", killSignal: "SIGTERM", reload: "true", want: drill.Inconclusive},
	}
}

// TestDrillMatrix holds the drill to deploys whose outcome is known. It is not parallel: what is looked at is a tail of latencies, which
// other tests would make too.
func TestDrillMatrix(t *testing.T) {
	m := boot(t, rootfs.Trixie())
	for path, compile := range map[string]func(context.Context) (string, error){
		supervisorPath: programs.Supervisor, servicePath: programs.Service,
	} {
		program, err := compile(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		m.install(program, path)
	}
	for i, c := range drillCases() {
		t.Run(c.name, func(t *testing.T) {
			p := &drillPair{testMachine: &testMachine{Machine: m.Machine, t: t}, drillCase: c, port: 9000 + 10*i}
			p.install()
			spare := spareRuns
			for done := 0; done < drillRuns; {
				p.start()
				rep := p.drill()
				if rep.Busy && spare > 0 {
					spare--
					t.Logf("once more, since this machine is late in %.1f %% of the time: %s: %s", 100*rep.StalledShare, rep.Verdict, rep.Reason)
					continue
				}
				p.judge(rep)
				done++
			}
		})
	}
}

// drillPair is two copies of a service behind nginx.
type drillPair struct {
	*testMachine
	drillCase
	port int // nginx's; those of the copies follow
}

func (p *drillPair) unitOf(what string) string { return fmt.Sprintf("%s-%d.service", what, p.port) }

func (p *drillPair) install() {
	p.t.Helper()
	for i, copy := range []string{"a", "b"} {
		p.unitFile(p.unitOf(copy), fmt.Sprintf("[Service]\nType=notify\nNotifyAccess=all\nKillSignal=%s\nExecStart=%s --bind 127.0.0.1:%d --version %s --work 300ms --serve http\n",
			p.killSignal, servicePath, p.port+1+i, copy))
	}
	// It takes requests, and no answer comes.
	p.unitFile(p.unitOf("silent"), fmt.Sprintf("[Service]\nType=notify\nNotifyAccess=all\nKillSignal=SIGKILL\nExecStart=%s --bind 127.0.0.1:%d --work 1h\n", servicePath, p.port+4))
	p.unitFile(p.unitOf("proxy"), fmt.Sprintf(`[Service]
Type=forking
PIDFile=/run/nginx-%d.pid
ExecStart=/usr/sbin/nginx -c %s
ExecReload=/bin/kill -HUP $MAINPID
`, p.port, p.file()))
	p.must("systemctl", "daemon-reload")
}

func (p *drillPair) unitFile(name, text string) {
	p.t.Helper()
	p.write("/run/systemd/system/"+name, text)
}

func (p *drillPair) file() string { return fmt.Sprintf("/etc/nginx-%d.conf", p.port) }

// nginx is a configuration with these backends, as ports.
func (p *drillPair) nginx(backends ...int) string {
	var servers strings.Builder
	for _, b := range backends {
		fmt.Fprintf(&servers, "server 127.0.0.1:%d;\n", b)
	}
	next := "off"
	if p.retry {
		next = "error timeout http_502 http_504"
	}
	patience := "10s" // more than any copy takes that answers
	if p.second == "swallows" {
		patience = "3s" // a copy on a busy machine may take more than one
	}
	return fmt.Sprintf(`worker_processes 1;
pid /run/nginx-%d.pid;
error_log /dev/null crit;
events { worker_connections 4096; }
http {
	access_log off;
	keepalive_requests 100000;
	upstream copies { %s }
	server {
		listen 127.0.0.1:%d;
		location / {
			proxy_pass http://copies;
			proxy_read_timeout %s;
			proxy_next_upstream %s;
		}
	}
}
`, p.port, &servers, p.port, patience, next)
}

// start starts everything anew, so that nothing is left of another run.
func (p *drillPair) start() {
	p.t.Helper()
	a, b := p.port+1, p.port+2
	p.write(p.file(), p.nginx(a, b))
	next := map[string][]int{"": {a}, "refuses": {a, p.port + 3}, "swallows": {a, p.port + 4}}[p.second]
	p.write(p.file()+".next", p.nginx(next...))
	p.must("systemctl", "restart", p.unitOf("a"), p.unitOf("b"), p.unitOf("silent"))
	p.must("systemctl", "restart", p.unitOf("proxy"))
}

// drill runs the drill and returns its report.
func (p *drillPair) drill() *drill.Report {
	p.t.Helper()
	reload := strings.NewReplacer("COPY", p.unitOf("b"), "PROXY", p.unitOf("proxy"), "PIDFILE", fmt.Sprintf("/run/nginx-%d.pid", p.port), "FILE", p.file()).Replace(p.reload)
	r := p.run(supervisorPath, "drill", "--url", fmt.Sprintf("http://127.0.0.1:%d/", p.port), "--reload", reload,
		"--rate", "200", "--lead", "2s", "--gap", "1500ms", "--json", "-")
	var rep drill.Report
	if err := json.Unmarshal([]byte(r.Stdout), &rep); err != nil {
		p.t.Fatalf("%v: %s", err, r)
	}
	status := map[drill.Verdict]int{drill.Clean: 0, drill.Inconclusive: 4, drill.Lost: 5, drill.Masked: 5}[rep.Verdict]
	if r.Status != status {
		p.t.Errorf("%s goes with exit status %d, not %d", rep.Verdict, status, r.Status)
	}
	return &rep
}

func (p *drillPair) judge(rep *drill.Report) {
	p.t.Helper()
	p.t.Logf("%s: %s (late by up to %s, in %.1f %% of the time)", rep.Verdict, rep.Reason, rep.Stalled, 100*rep.StalledShare)
	if rep.Verdict != p.want || p.few > 0 && rep.All.Failed > p.few {
		p.t.Errorf("want %s; notes %q, handoffs %+v, calm %+v, disturbed %+v", p.want, rep.Notes, *rep.Handoffs[0], rep.Calm, rep.Disturbed)
	}
}
