package integration_test

import (
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/services"
)

// lateBody is a client that sends the head of a request, and its body, which looks like a request, when it is told to: after the answer, if there
// is one before that.
const lateBody = `import os, socket, time

body = b"GET /?id=666 HTTP/1.1\r\nHost: x\r\n\r\n"
c = socket.create_connection(("127.0.0.1", 8080))
c.sendall(b"POST /?early HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body))
c.settimeout(0.5)
try:
    answered = bool(c.recv(4096))
except TimeoutError:
    answered = False
open("/run/late-" + ("answered" if answered else "waiting"), "w").close()
for _ in range(600):
    if os.path.exists("/run/late-go"):
        break
    time.sleep(0.05)
c.settimeout(2)
try:
    c.sendall(body)
    while c.recv(4096):
        pass
except OSError:
    pass
open("/run/late-over", "w").close()
`

// lateBodyStaysOne hands the service off while a body is still to come, and sees whether it is taken for a request then. That is so for services
// that close such a connection as an idle one, which is written down. One that does not answer before it has the body gets that right after the
// handoff, which may be before its connections are parked: the standalone tests see to those.
func (s *supervised) lateBodyStaysOne(t *testing.T, service services.Service) {
	t.Helper()
	s.write("/run/late.py", lateBody)
	s.must("systemd-run", "--quiet", "--unit=late", "/usr/bin/python3", "/run/late.py")
	there := func(name string) bool { return s.run("test", "-e", "/run/late-"+name).Status == 0 }
	s.eventually("the head is sent", func() bool { return there("answered") || there("waiting") })
	answered := there("answered")
	if r := s.reload(); r.Status != 0 {
		t.Fatalf("reload: %s", r)
	}
	if answered { // else the old version waits for it
		s.eventually("the old version has let go of it", func() bool { return len(s.status().Generations) == 1 })
	}
	s.must("touch", "/run/late-go")
	s.eventually("the body is sent", func() bool { return there("over") })
	executed := strings.Contains(s.must("cat", services.Executed), "id=666")
	t.Logf("%s: answered before the body: %t; the body was executed: %t; %+v", service.Name, answered, executed, s.status().Carried)
	if executed && !service.DropsBodies {
		t.Error("the body was taken for a request")
	}
	s.eventually("the old version is gone", func() bool { return len(s.status().Generations) == 1 })
}
