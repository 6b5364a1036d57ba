package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// setCanary takes one share or several steps: "5%" or "5%:30s, 25%:30s". A step
// without a time has none until completeHandoff.
func setCanary(c *draft, v value) error {
	const right = `write a share such as "5%", or steps such as "5%:30s, 25%:30s"`
	var steps []CanaryStep
	for _, text := range strings.Split(v.texts[0], ",") {
		text = strings.TrimSpace(text)
		step, reason := parseCanaryStep(text)
		if reason == "" && len(steps) > 0 && step.Share <= steps[len(steps)-1].Share {
			reason = "is not more than the step before it"
		}
		if reason != "" {
			return fmt.Errorf("%q %s; %s", text, reason, right)
		}
		steps = append(steps, step)
	}
	c.Handoff.Canary = steps
	return nil
}

// parseCanaryStep reads one step. The reason says what is wrong with it, or is "".
func parseCanaryStep(text string) (step CanaryStep, reason string) {
	share, lasts, timed := strings.Cut(text, ":")
	number, isShare := strings.CutSuffix(strings.TrimSpace(share), "%")
	percent, err := strconv.ParseFloat(number, 64)
	step.Share = percent / 100
	switch {
	case !isShare || err != nil:
		return step, "is not a share in percent"
	case !(step.Share > 0 && step.Share < 1): // NaN is neither
		return step, "is not between 0% and 100%"
	}
	if timed {
		if step.Time, err = time.ParseDuration(strings.TrimSpace(lasts)); err != nil || step.Time <= 0 {
			return step, "does not have a time after its colon"
		}
	}
	return step, ""
}

// completeCanary gives the steps that do not say how long they last the time of
// handoff.canary-time.
func (l *loader) completeCanary() {
	const key, timeKey = "handoff.canary", "handoff.canary-time"
	steps, used := l.draft.Handoff.Canary, false
	for i := range steps {
		if steps[i].Time == 0 {
			steps[i].Time, used = l.draft.canaryTime, true
		}
	}
	canary, wanted := l.places[key]
	at, given := l.places[timeKey]
	switch {
	case used && !given:
		l.report(canary, key, `has a step that does not say how long it lasts; write it as in "5%%:30s", or set %s`, timeKey)
	case given && !wanted:
		l.report(at, timeKey, "is only for a canary, and there is no %s", key)
	case given && !used && len(steps) > 0 && (canary.flag == "" || at.flag != ""): // the file may have it left over
		l.report(at, timeKey, "is not used: every step of %s says itself how long it lasts; leave it out", key)
	}
}
