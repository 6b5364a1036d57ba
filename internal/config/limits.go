package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/internal/suggest"
)

// limits are the names of resource limits, without the "Limit" of systemd and
// the "RLIMIT_" of the kernel.
func limits() map[string]int {
	return map[string]int{
		"as":         unix.RLIMIT_AS,
		"core":       unix.RLIMIT_CORE,
		"cpu":        unix.RLIMIT_CPU,
		"data":       unix.RLIMIT_DATA,
		"fsize":      unix.RLIMIT_FSIZE,
		"locks":      unix.RLIMIT_LOCKS,
		"memlock":    unix.RLIMIT_MEMLOCK,
		"msgqueue":   unix.RLIMIT_MSGQUEUE,
		"nice":       unix.RLIMIT_NICE,
		"nofile":     unix.RLIMIT_NOFILE,
		"nproc":      unix.RLIMIT_NPROC,
		"rss":        unix.RLIMIT_RSS,
		"rtprio":     unix.RLIMIT_RTPRIO,
		"rttime":     unix.RLIMIT_RTTIME,
		"sigpending": unix.RLIMIT_SIGPENDING,
		"stack":      unix.RLIMIT_STACK,
	}
}

func limitNames() []string {
	names := make([]string, 0, len(limits()))
	for name := range limits() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// setLimit takes NAME=LIMIT and NAME=SOFT:HARD.
func setLimit(c *draft, v value) error {
	for _, entry := range v.texts {
		name, text, ok := strings.Cut(entry, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=LIMIT", entry)
		}
		resource, ok := limits()[name]
		if !ok {
			return fmt.Errorf("there is no limit %q%s; there are %s", name, suggest.DidYouMean(name, limitNames()), strings.Join(limitNames(), ", "))
		}
		softText, hardText, two := strings.Cut(text, ":")
		if !two {
			hardText = softText
		}
		soft, softErr := parseLimit(softText)
		hard, hardErr := parseLimit(hardText)
		switch {
		case softErr != nil || hardErr != nil:
			return fmt.Errorf("%q is not %s", text, LimitTable.entryForm())
		case soft > hard:
			return fmt.Errorf("%q has a soft limit above the hard one", text)
		}
		c.Limits = slices.DeleteFunc(c.Limits, func(l Limit) bool { return l.Name == name })
		c.Limits = append(c.Limits, Limit{Name: name, Resource: resource, Soft: soft, Hard: hard})
	}
	slices.SortFunc(c.Limits, func(a, b Limit) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

func parseLimit(text string) (uint64, error) {
	if text == "infinity" {
		return unix.RLIM_INFINITY, nil
	}
	return strconv.ParseUint(text, 10, 64)
}
