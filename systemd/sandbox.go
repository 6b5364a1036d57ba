package systemd

import "strings"

// A Sandbox is what a unit takes away from the supervisor and from the service,
// which runs in the same unit. What it takes suits a network service that needs
// no devices, no set-user-ID programs and writes nothing to /usr, /boot and /etc.
type Sandbox struct {
	// Capabilities are all that the unit keeps, such as "CAP_NET_BIND_SERVICE". Nil
	// keeps what a service that runs as root may need.
	Capabilities []string
}

// never are the capabilities that no unit keeps: those to take the whole machine
// down or to get around the kernel, which no service needs to be handed off.
const never = "CAP_SYS_BOOT CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_PACCT CAP_MAC_ADMIN CAP_MAC_OVERRIDE CAP_BLOCK_SUSPEND"

// write writes the lines of a sandbox, which may be nil.
//
// What is not there is left out for a reason: ProtectControlGroups= keeps a
// generation out of its control group, PrivateTmp= empties /tmp when a supervisor
// is started again, under a service that goes on, PrivateUsers= leaves no other
// user to run it as, PrivatePIDs= ends it with the supervisor,
// MemoryDenyWriteExecute= is the end of runtimes that compile, and
// ProtectSystem=strict, ProtectHome= and PrivateNetwork= hide what it works with.
func (s *Sandbox) write(t *unitText) {
	if s == nil {
		t.comment("The service runs in this sandbox too. These are for any service; unit --harden takes more away.")
		t.set("CapabilityBoundingSet", "~"+never)
		t.set("LockPersonality", "yes")
		return
	}
	t.comment("The service runs in this sandbox too. Take out what it cannot do without.")
	if s.Capabilities == nil {
		t.set("CapabilityBoundingSet", "~"+never)
	} else {
		t.set("CapabilityBoundingSet", strings.Join(s.Capabilities, " "))
	}
	for _, line := range []struct{ key, value string }{
		{"NoNewPrivileges", "yes"},
		{"ProtectSystem", "full"},
		{"PrivateDevices", "yes"},
		{"ProtectClock", "yes"},
		{"ProtectHostname", "yes"},
		{"ProtectKernelLogs", "yes"},
		{"ProtectKernelModules", "yes"},
		{"ProtectKernelTunables", "yes"},
		{"RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6 AF_NETLINK"},
		{"RestrictNamespaces", "yes"},
		{"RestrictRealtime", "yes"},
		{"RestrictSUIDSGID", "yes"},
		{"LockPersonality", "yes"},
		{"SystemCallArchitectures", "native"},
	} {
		t.set(line.key, line.value)
	}
	t.comment("pidfd_getfd(2) carries connections over, seccomp(2) is for sockets with pass = \"adopt\".")
	t.set("SystemCallFilter", "@system-service pidfd_getfd seccomp")
	t.set("SystemCallErrorNumber", "EPERM")
}
