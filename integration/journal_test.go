package integration_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// journaled is one entry, as "journalctl --output=json" has it.
type journaled map[string]any

// entries are those of the supervisor, in order.
func (s *supervised) entries() (all []journaled) {
	s.t.Helper()
	s.must("journalctl", "--sync")
	text := s.must("journalctl", "--boot", "--no-pager", "--all", "--output=json", "--unit="+unitName, "SYSLOG_IDENTIFIER=zddsupervisor")
	for line := range strings.Lines(text) {
		var e journaled
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// event returns the last entry of an event with these fields, or nil.
func (s *supervised) event(want journaled) (last journaled) {
	s.t.Helper()
	for _, e := range s.entries() {
		matches := true
		for field, value := range want {
			matches = matches && fmt.Sprint(e[field]) == fmt.Sprint(value)
		}
		if matches {
			last = e
		}
	}
	return last
}

// Under systemd the log goes to the journal in its own protocol, with a field for everything; also after the journal was started anew, and with
// the unit's own entries where it is asked for in JSON.
func TestJournalFields(t *testing.T) {
	onEach(t, func(t *testing.T, m *testMachine) {
		s := supervise(t, m, config("-version=1"))
		s.must("systemctl", "start", unitName)
		supervisor := s.show(unitName, "MainPID")
		s.write(configPath, config("-version=2"))
		if r := s.reload(); r.Status != 0 {
			t.Fatal(r)
		}
		s.eventually("the old generation gone", func() bool { return len(s.status().Generations) == 1 })
		for _, want := range []journaled{
			{"ZDD_EVENT": "handing off", "ZDD_HANDOFF": 2, "ZDD_FROM": 1, "PRIORITY": 6},
			{"ZDD_EVENT": "opened", "ZDD_SOCKET": "http", "ZDD_ADDRESS": "tcp://" + address},
			{"ZDD_EVENT": "started", "ZDD_HANDOFF": 2, "ZDD_GENERATION": 2},
			{"ZDD_EVENT": "live", "ZDD_HANDOFF": 2, "ZDD_GENERATION": 2, "ZDD_NAME": "svc"},
			{"ZDD_EVENT": "gone", "ZDD_GENERATION": 1, "ZDD_CAUSE": "replaced by generation 2"},
		} {
			e := s.event(want)
			if e == nil {
				t.Errorf("no entry has %v", want)
				continue
			}
			if e["_PID"] != supervisor || e["_SYSTEMD_UNIT"] != unitName || e["_TRANSPORT"] != "journal" ||
				!strings.HasPrefix(fmt.Sprint(e["MESSAGE"]), fmt.Sprint(want["ZDD_EVENT"])) {
				t.Errorf("the entry is %v", e)
			}
		}
		if e := s.event(journaled{"_TRANSPORT": "stdout", "_PID": supervisor}); e != nil {
			t.Errorf("on standard error: %v", e["MESSAGE"])
		}
		s.must("systemctl", "kill", "--kill-whom=main", "--signal=USR1", unitName)
		s.eventually("the status in the log", func() bool { return s.event(journaled{"ZDD_EVENT": "status"}) != nil })

		s.must("systemctl", "restart", "systemd-journald.service")
		s.write(configPath, config("-exit-after=0s"))
		if r := s.reload(); r.Status == 0 {
			t.Errorf("a bad version: %s", r)
		}
		if e := s.event(journaled{"ZDD_EVENT": "handoff failed", "ZDD_HANDOFF": 3, "ZDD_STEP": "ready", "PRIORITY": 3}); e == nil ||
			!strings.Contains(fmt.Sprint(e["ZDD_CAUSE"]), "exit status 1") {
			t.Errorf("after the journal was restarted: %v", e)
		}

		s.write(configPath, "log.format = \"json\"\n"+config("-version=3"))
		s.must("systemctl", "restart", unitName)
		var live bool
		supervisor = s.show(unitName, "MainPID")
		for _, e := range s.entries() {
			if e["_PID"] != supervisor {
				continue
			}
			var line struct {
				Msg                 string
				Generation, Handoff int
			}
			if err := json.Unmarshal([]byte(fmt.Sprint(e["MESSAGE"])), &line); err != nil {
				t.Errorf("%v is no JSON: %v", e["MESSAGE"], err)
			}
			live = live || line.Msg == "live" && line.Generation > 0 && line.Handoff > 0
		}
		if !live {
			t.Error("no line of JSON says that a generation is live")
		}
	})
}
