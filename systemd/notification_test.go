package systemd

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Notification{
		"READY=1":                            {Ready: true},
		"READY=1\n":                          {Ready: true},
		"READY=1\x00":                        {Ready: true},
		"\n\nREADY=1\n\nSTATUS=up":           {Ready: true, Status: "up", HasStatus: true},
		"READY=0":                            {},
		"READY=11":                           {},
		"READY":                              {},
		"ready=1":                            {},
		" READY=1":                           {},
		"RELOADING=1\nMONOTONIC_USEC=5":      {Reloading: true},
		"STOPPING=1":                         {Stopping: true},
		"STATUS=":                            {HasStatus: true},
		"STATUS=a=b":                         {Status: "a=b", HasStatus: true},
		"STATUS=\xff":                        {},
		"STATUS=first\nSTATUS=second":        {Status: "first", HasStatus: true},
		"EXTEND_TIMEOUT_USEC=1500":           {ExtendTimeout: 1500 * time.Microsecond},
		"EXTEND_TIMEOUT_USEC=":               {},
		"EXTEND_TIMEOUT_USEC=-1":             {},
		"EXTEND_TIMEOUT_USEC=infinity":       {},
		"EXTEND_TIMEOUT_USEC=1\nREADY=1":     {ExtendTimeout: time.Microsecond, Ready: true},
		"WATCHDOG_USEC=18446744073709551615": {WatchdogTimeout: math.MaxInt64},
		"WATCHDOG=1":                         {Watchdog: true},
		"WATCHDOG=trigger":                   {WatchdogTrigger: true},
		"WATCHDOG=0":                         {},
		"ERRNO=22\nSTATUS=no":                {Errno: 22, Status: "no", HasStatus: true},
		"ERRNO=-22":                          {},
		"ERRNO=99999999999":                  {},
		"BARRIER=1":                          {Barrier: true},
		"BARRIER=1\n":                        {Barrier: true},
		"BARRIER=0":                          {},
		"MAINPID=1\nFDSTORE=1\nFDNAME=x":     {},
		"garbage":                            {},
		"=":                                  {},
		strings.Repeat("x", maxDatagram):     {},
	} {
		if got, err := Parse([]byte(text)); err != nil || got != want {
			t.Errorf("Parse(%.60q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestParseMalformed(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "\x00", "READY=1\x00\x00", "READY=1\x00STATUS=x", strings.Repeat("x", maxDatagram+1),
		"BARRIER=1\nREADY=1", "X_OWN=1\nBARRIER=1", "BARRIER=1\nBARRIER=1",
	} {
		if got, err := Parse([]byte(text)); !errors.Is(err, ErrMalformed) || got != (Notification{}) {
			t.Errorf("Parse(%.60q) = %+v, %v, want ErrMalformed", text, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"READY=1", "READY=1\nSTATUS=Processing requests…\nMAINPID=4711", "RELOADING=1\nMONOTONIC_USEC=123",
		"STATUS=a\nSTATUS=b", "EXTEND_TIMEOUT_USEC=5000000", "WATCHDOG=trigger", "WATCHDOG_USEC=18446744073709551616",
		"ERRNO=2", "BARRIER=1", "BARRIER=1\nREADY=1", "STATUS=\xff", "READY=1\x00", "\n=\n==\nREADY==1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, datagram []byte) {
		kept := string(datagram)
		n, err := Parse(datagram)
		if string(datagram) != kept {
			t.Error("the datagram was changed")
		}
		if err != nil {
			if n != (Notification{}) {
				t.Errorf("both a value and %v", err)
			}
			return
		}
		if !utf8.ValidString(n.Status) || strings.Contains(n.Status, "\n") || !n.HasStatus && n.Status != "" {
			t.Errorf("status %q, %v", n.Status, n.HasStatus)
		}
		if n.ExtendTimeout < 0 || n.WatchdogTimeout < 0 || n.Errno < 0 || n.Errno > 4095 {
			t.Errorf("out of range: %+v", n)
		}
		if n.Barrier && n != (Notification{Barrier: true}) {
			t.Errorf("a barrier that is not alone: %+v", n)
		}
		if n.Ready && !strings.Contains(kept, "READY=1") {
			t.Errorf("ready from %q", kept)
		}
	})
}

// What a Notifier sends, a Receiver has to understand.
func FuzzStatusRoundTrip(f *testing.F) {
	for _, seed := range []string{"up", "two\nlines", "\xff\xfe", "\x00", strings.Repeat("€", 2000), " a ", "\u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, status string) {
		datagram, err := compose([]string{"READY=1", "STATUS=" + status})
		if err != nil {
			t.Fatal(err)
		}
		n, err := Parse([]byte(datagram))
		if err != nil || !n.Ready || !n.HasStatus {
			t.Fatalf("Parse(%q) = %+v, %v", datagram, n, err)
		}
	})
}
