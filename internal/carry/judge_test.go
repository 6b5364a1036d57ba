package carry

import (
	"testing"
	"time"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	idle := sample{state: established, received: 100, written: 200, sinceReceived: 12 * ms, sinceSent: 8 * ms}
	tie := sample{state: established, received: 100, written: 200, sinceReceived: 8 * ms, sinceSent: 8 * ms}
	waiting := sample{state: established, received: 140, unread: 40, written: 200, sinceReceived: 4 * ms, sinceSent: 8 * ms}
	seen := history{woken: 100, still: quiet, answered: true, patience: 250 * ms}
	unseen := history{woken: 100, still: 249 * ms, patience: 250 * ms}
	with := func(s sample, change func(*sample)) sample { change(&s); return s }
	for name, c := range map[string]struct {
		s    sample
		h    history
		head Beginning
		want verdict
	}{
		"idle":                                 {idle, seen, Nothing, between},
		"never used":                           {sample{state: established}, seen, Nothing, between},
		"it has moved a moment ago":            {idle, history{still: quiet - 1, answered: true}, Nothing, busy},
		"a request has no answer":              {with(idle, func(s *sample) { s.sinceSent = 16 * ms }), seen, Nothing, busy},
		"the answer has not gone":              {with(idle, func(s *sample) { s.unsent = 1 }), seen, Nothing, busy},
		"the last answer came late":            {with(idle, func(s *sample) { s.sinceReceived = 2 * time.Second }), seen, Nothing, busy},
		"it cannot be said whether one is due": {tie, unseen, Nothing, busy},
		"none was due for long":                {tie, history{still: 250 * ms, patience: 250 * ms}, Nothing, between},
		"one was seen to be the answer":        {tie, seen, Nothing, between},
		"the next request waits":               {waiting, seen, Whole, between},
		"a part of the next request waits":     {waiting, seen, Partial, between},
		"the rest of a body waits":             {waiting, seen, Foreign, reading},
		"a request waits that is malformed":    {waiting, seen, Malformed, reading},
		"the server has been woken for it":     {waiting, history{woken: 140, still: quiet, answered: true}, Whole, busy},
		"and has slept on":                     {waiting, history{woken: 140, still: drowsy, answered: true}, Whole, between},
		"the client has ended it":              {with(idle, func(s *sample) { s.state = closeWait }), seen, Nothing, busy},
		"the server has ended it":              {with(idle, func(s *sample) { s.state = 4 }), seen, Nothing, busy},
	} {
		if got := judge(c.s, c.h, c.head); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	last := sample{received: 100, written: 200}
	for name, c := range map[string]struct {
		s    sample
		want bool
	}{
		"nothing":                            {last, false},
		"written since, and nothing read":    {sample{received: 100, written: 300}, true},
		"read and written":                   {sample{received: 150, written: 300}, false},
		"the client has not acknowledged it": {sample{received: 150, written: 300, unacked: 100}, true},
		"sent later":                         {sample{received: 150, written: 300, sinceReceived: 8, sinceSent: 4}, true},
		"received later":                     {sample{received: 150, written: 300, sinceReceived: 4, sinceSent: 8}, false},
		"the next request is there already":  {sample{received: 150, unread: 50, written: 300, unacked: 100}, false},
	} {
		if got := c.s.answers(last); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
