package integration_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/zddsupervisor/zddsupervisor/integration/internal/services"
)

// askingDNS asks over UDP, one question after the other and none twice, until its standard input ends; a line for each hundred shows that it
// goes on. At last it tells how many there were, and how many of them were not answered within 10 s.
const askingDNS = `import select, socket, struct, sys
question = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\x05hello\x04test\x00" + struct.pack(">HH", 1, 1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("127.0.0.1", 5300))
s.settimeout(10)
asked = lost = 0
while not select.select([sys.stdin], [], [], 0.002)[0]:
    asked += 1
    try:
        s.send(question)
        s.recv(512)
    except OSError as e:
        lost += 1
        print(e, file=sys.stderr)
    if asked % 100 == 0:
        print("on", flush=True)
print(asked, lost)
`

// TestRealDNS hands a DNS server off while it is asked over UDP. With overlap = false no question is lost: those that come between two
// versions wait.
func TestRealDNS(t *testing.T) {
	t.Parallel()
	s := superviseReal(t, services.Unbound(), services.Unbound().Config)
	s.write("/ask.py", askingDNS)
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	defer cancel()
	asking := s.Command(ctx, "python3", "/ask.py")
	stop, err := asking.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := asking.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints strings.Builder
	asking.Stderr = &complaints
	if err := asking.Start(); err != nil {
		t.Fatal(err)
	}
	read := func() (line string) {
		t.Helper()
		var c [1]byte
		for {
			if _, err := out.Read(c[:]); err != nil {
				t.Fatalf("the client: %v, %s", err, complaints.String())
			}
			if c[0] == '\n' {
				return line
			}
			line += string(c[:])
		}
	}
	const handoffs = 5
	for range handoffs {
		read()
		if r := s.reload(); r.Status != 0 {
			t.Fatalf("reload: %s", r)
		}
	}
	read()
	if err := stop.Close(); err != nil {
		t.Fatal(err)
	}
	line := read()
	for line == "on" {
		line = read()
	}
	var asked, lost int
	if _, err := fmt.Sscan(line, &asked, &lost); err != nil || asked < 100*handoffs || lost > 0 {
		t.Errorf("asked and lost: %q, %v, %s", line, err, complaints.String())
	}
	if err := asking.Wait(); err != nil {
		t.Error(err)
	}
	s.eventually("the last old version is gone", func() bool { return len(s.status().Generations) == 1 })
	if got := s.status().Handoffs; got != handoffs+1 {
		t.Errorf("%d handoffs, want %d and the first start", got, handoffs)
	}
}
