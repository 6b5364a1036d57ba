package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/systemd"
)

// examine looks at what any supervisor needs of its unit.
func (u *Unit) examine(r *report, version int) {
	where := u.Name + " is " + u.properties["FragmentPath"]
	if drops := u.properties["DropInPaths"]; drops != "" {
		where += ", with " + strings.Join(strings.Fields(drops), ", ")
	}
	r.fine(where)
	rules := u.rules(version)
	for _, rule := range rules {
		if !rule.good && u.has(rule.property) {
			set := rule.property + "=" + u.properties[rule.property]
			want := rule.want
			if strings.HasPrefix(u.properties[rule.property], "{") || u.properties[rule.property] == "" {
				set = rule.property + "= is not set"
				var lines []string
				for _, argv := range u.commands(rule.property) {
					lines = append(lines, rule.property+"="+strings.Join(argv, " "))
				}
				if len(lines) > 0 { // a line more would run besides
					set, want = strings.Join(lines, ", "), ", and below it "+rule.property+"="+want
				}
			}
			r.add(rule.severity, set, rule.means, u.line(rule.property, want))
		}
	}
	if u.is("NeedDaemonReload", "yes") {
		r.add(Warns, "the unit's file was changed, and systemd does not know", "the unit that is in force is the old one", "systemctl daemon-reload")
	}
}

// A rule is about one line of a unit.
type rule struct {
	property string
	good     bool
	severity Severity
	means    string
	want     string
}

func (u *Unit) rules(version int) []rule {
	kind := "notify-reload"
	if version > 0 && version < notifyReload {
		kind = "notify"
	}
	command := func(property, name string) bool {
		return slices.ContainsFunc(u.commands(property), func(argv []string) bool { return len(argv) > 1 && argv[1] == name })
	}
	binary := "/usr/bin/zddsupervisor"
	if argv := argumentsOf(u.properties["ExecStart"]); len(argv) > 0 {
		binary = argv[0]
	}
	return []rule{
		{"Type", u.is("Type", "notify-reload", "notify"), Fails, "systemd does not wait until the service is ready, and keeps nothing for the supervisor", kind},
		{"NotifyAccess", !u.is("NotifyAccess", "none", ""), Fails, "systemd does not listen to the supervisor: the unit never gets ready", "main"},
		{"KillMode", u.is("KillMode", "process"), Warns, "if the supervisor dies, systemd kills the service with it, and a stop may cut draining short", "process"},
		{"SendSIGHUP", !u.is("SendSIGHUP", "yes"), Warns, "a stop begins with a signal that asks for a handoff", "no"},
		{"Restart", u.is("Restart", "always"), Warns, "a supervisor that ends is not started again", "always"},
		{"ExecReload", command("ExecReload", "reload"), Warns, "systemctl reload does not tell whether the handoff succeeded", binary + " reload --name " + u.Supervisor},
		{"ExecStopPost", command("ExecStopPost", "sweep") || !u.is("KillMode", "process", "none"), Warns, "what a dead supervisor leaves is not ended by a stop", binary + " sweep --name " + u.Supervisor},
		{"FileDescriptorStoreMax", !u.is("FileDescriptorStoreMax", "0"), Fails, "systemd keeps no sockets: they are closed, and clients refused, while the supervisor is restarted", "512"},
		{"RuntimeDirectory", strings.Contains(" "+u.properties["RuntimeDirectory"]+" ", " zddsupervisor/"+u.Supervisor+" "), Warns, "commands do not find the supervisor by its name, and its state may be lost with it", "zddsupervisor/" + u.Supervisor},
		{"RuntimeDirectoryPreserve", u.is("RuntimeDirectoryPreserve", "restart", "yes"), Fails, "what the supervisor has written down is removed when it dies, and the service is ended instead of taken over", "restart"},
		{"Delegate", u.is("Delegate", "yes"), Warns, "the generations have no control groups, and a process that hides is missed", "yes"},
		{"OOMPolicy", u.is("OOMPolicy", "continue"), Warns, "a process of the service that the kernel kills for want of memory takes the whole unit down", "continue"},
		{"ProtectControlGroups", u.is("ProtectControlGroups", "no"), Warns, "the generations have no control groups, and a process that hides is missed", "no"},
		{"PrivateTmp", u.is("PrivateTmp", "no"), Warns, "when a supervisor is started again, /tmp is emptied under the service that goes on", "no"},
		{"PrivateUsers", u.is("PrivateUsers", "no"), Warns, "there is no other user to run the service as", "no"},
		{"PrivateNetwork", u.is("PrivateNetwork", "no"), Warns, "nobody outside of the unit reaches the sockets, but for those of .socket units", "no"},
		{"RestrictAddressFamilies", u.allowsFamily("AF_UNIX"), Fails, "the supervisor cannot be asked, nor the service say that it is ready", "AF_UNIX AF_INET AF_INET6 AF_NETLINK"},
		{"RestrictAddressFamilies", !u.allowsFamily("AF_UNIX") || u.allowsFamily("AF_NETLINK"), Warns, "the kernel cannot be asked for connections: whether anything is on its way to an old version shows in accept queues alone", "AF_UNIX AF_INET AF_INET6 AF_NETLINK"},
	}
}

// allowsFamily reads RestrictAddressFamilies=: a list of what is allowed, or after '~' of what is not; nothing allows all.
func (u *Unit) allowsFamily(family string) bool {
	list := u.properties["RestrictAddressFamilies"]
	rest, inverted := strings.CutPrefix(list, "~")
	listed := strings.Contains(" "+rest+" ", " "+family+" ")
	return list == "" || listed != inverted
}

// examineFor looks at what a configuration needs of the unit.
func (u *Unit) examineFor(r *report, cfg *config.Config, wants systemd.Unit) {
	u.limit(r, "TimeoutStartUSec", "TimeoutStartSec", wants.TimeoutStart(),
		"systemd's limit for a start and a reload is shorter than what the configuration allows; the supervisor asks for more time while it runs, and if it hangs, systemd gives up early")
	u.limit(r, "TimeoutStopUSec", "TimeoutStopSec", wants.TimeoutStop(),
		"systemd's limit for a stop is shorter than what draining may take; the supervisor asks for more time while it runs, and if it hangs, requests are cut off")
	if n, err := strconv.Atoi(u.properties["FileDescriptorStoreMax"]); err == nil && n > 0 && n < wants.Descriptors {
		r.add(Fails, fmt.Sprintf("FileDescriptorStoreMax=%d is less than the %d descriptors that the configuration may need", n, wants.Descriptors),
			"some sockets are lost if the supervisor dies", u.line("FileDescriptorStoreMax", strconv.Itoa(max(512, 2*wants.Descriptors))))
	}
	if user := u.properties["User"]; user != "" && user != "root" && user != "0" && cfg.User != "" && cfg.User != user {
		r.add(Fails, fmt.Sprintf("the unit has User=%s, and the configuration user = %q", user, cfg.User), "the supervisor may not become another user",
			u.line("User", "")+", or leave user out of the configuration")
	}
	bounded := " " + u.properties["CapabilityBoundingSet"] + " "
	for _, p := range cfg.Privileges() {
		if u.has("CapabilityBoundingSet") && !strings.Contains(bounded, " "+strings.ToLower(p.Capability)+" ") {
			severity, means := Fails, "it is needed "+p.For
			if p.Capability == "CAP_DAC_READ_SEARCH" && strings.Contains(bounded, " cap_dac_override ") {
				continue // which is more
			}
			if strings.HasPrefix(p.Capability, "CAP_DAC_") || p.Capability == "CAP_SYS_RESOURCE" || p.Capability == "CAP_FOWNER" {
				severity, means = Warns, "it may be needed "+p.For
			}
			r.add(severity, "the unit does not have "+p.Capability, means, u.line("CapabilityBoundingSet", p.Capability))
		}
	}
	if strings.Contains(u.properties["PrivateTmp"], "yes") {
		for _, s := range cfg.Sockets {
			if strings.HasPrefix(s.Address, "/tmp/") || strings.HasPrefix(s.Address, "/var/tmp/") {
				r.add(Fails, "with PrivateTmp=yes nobody sees "+s.Address, "clients do not reach the socket "+s.FDName(), u.line("PrivateTmp", "no"))
			}
		}
	}
	if at := filepath.Base(cfg.RuntimeDirectory); at != u.Supervisor {
		r.add(Warns, fmt.Sprintf("the runtime directory is %s", cfg.RuntimeDirectory), "commands do not find the supervisor by its name", "leave runtime-directory out: the unit makes it")
	}
}

// limit compares a time limit of the unit with what it would be if it were written now.
func (u *Unit) limit(r *report, property, key string, wants time.Duration, means string) {
	is, infinite, err := parseSpan(u.properties[property])
	switch {
	case err != nil || u.properties[property] == "":
		r.add(Unseen, fmt.Sprintf("%s is %q", property, u.properties[property]), "", "")
	case !infinite && is < wants:
		r.add(Warns, fmt.Sprintf("%s=%s is less than %s", key, u.properties[property], wants), means, u.line(key, fmt.Sprintf("%ds", int((wants+time.Second-1)/time.Second))))
	default:
		r.fine(fmt.Sprintf("%s=%s suits the configuration", key, u.properties[property]))
	}
}
