package doctor

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/zddsupervisor/zddsupervisor/fdpass"
	"github.com/zddsupervisor/zddsupervisor/internal/config"
	"github.com/zddsupervisor/zddsupervisor/internal/redirect"
)

// sockets looks at the addresses that the configuration wants.
func (m machine) sockets(ctx context.Context, r *report, cfg *config.Config, u *Unit) {
	if len(cfg.Sockets) == 0 {
		r.add(Warns, "no socket is configured", "nothing can be handed over", "--listen, or a [[socket]] in the configuration")
	}
	somaxconn, err := m.number("sys/net/core/somaxconn")
	for _, s := range cfg.Sockets {
		if err == nil && s.Backlog > somaxconn {
			r.add(Warns, fmt.Sprintf("the socket %s wants a backlog of %d, and net.core.somaxconn is %d", s.FDName(), s.Backlog, somaxconn),
				"the kernel clamps it: clients wait or are turned away in a rush", fmt.Sprintf("sysctl -w net.core.somaxconn=%d", s.Backlog))
		}
		if s.Pass == fdpass.PassPort {
			firewall(r, s)
		}
		switch {
		case s.Network == fdpass.Systemd:
			ofSystemd(ctx, r, s)
		case strings.HasPrefix(s.Network, fdpass.Unix):
			unixPath(r, s, u)
		default:
			m.port(r, s, u)
		}
	}
}

// firewall looks whether the firewall can be asked, which takes the same right as to change it.
func firewall(r *report, s fdpass.Spec) {
	if _, err := redirect.Tables(""); err != nil {
		r.add(Fails, fmt.Sprintf("the firewall, which is to redirect the socket %s, cannot be asked: %v", s.FDName(), err), "the supervisor does not start",
			"run this, and the supervisor, as root or with CAP_NET_ADMIN; modprobe -a nf_tables nft_nat nft_fib_inet nft_ct nft_numgen")
		return
	}
	r.fine("the firewall (nf_tables) can be asked and changed, for the socket " + s.FDName())
}

// ofSystemd looks for the .socket unit of a socket.
func ofSystemd(ctx context.Context, r *report, s fdpass.Spec) {
	out, err := systemctl(ctx, "show", "--property=Id,FileDescriptorName,ReusePort,ActiveState", "--", "*.socket")
	if err != nil {
		r.add(Unseen, fmt.Sprintf("the .socket units: %v", err), "", "")
		return
	}
	for block := range strings.SplitSeq(out, "\n\n") {
		p := parseProperties(block)
		if p["FileDescriptorName"] != s.Address {
			continue
		}
		switch {
		case p["ActiveState"] != "active":
			r.add(Fails, fmt.Sprintf("%s, which has the socket %s, is %s", p["Id"], s.Address, p["ActiveState"]), "the supervisor does not start without it", "systemctl enable --now "+p["Id"])
		case p["ReusePort"] != "yes" && s.Mode == fdpass.Steered:
			r.add(Warns, p["Id"]+" does not say ReusePort=yes", "the socket "+s.FDName()+" is shared and not steered", "ReusePort=yes in [Socket] of "+p["Id"])
		default:
			r.fine(fmt.Sprintf("%s has the socket %s", p["Id"], s.Address))
		}
		return
	}
	r.add(Fails, "no .socket unit has FileDescriptorName="+s.Address, "the supervisor does not start without it", "zddsupervisor unit --install --socket-unit writes one")
}

// unixPath looks at the directory of a unix socket.
func unixPath(r *report, s fdpass.Spec, u *Unit) {
	if !strings.HasPrefix(s.Address, "/") {
		return
	}
	dir := filepath.Dir(s.Address)
	info, err := os.Stat(dir)
	var file unix.Statfs_t
	switch {
	case errors.Is(err, fs.ErrNotExist) && u.makes(dir):
		r.fine(fmt.Sprintf("the directory of %s is there when the unit is started", s.Address))
	case errors.Is(err, fs.ErrNotExist):
		r.add(Fails, fmt.Sprintf("%s, for the socket %s, does not exist", dir, s.FDName()), "the supervisor does not start", "mkdir "+dir+", or for a directory below /run a line in /etc/tmpfiles.d")
	case err != nil:
		r.add(Unseen, fmt.Sprintf("the directory of the socket %s: %v", s.FDName(), err), "", "run this as root")
	case !info.IsDir():
		r.add(Fails, fmt.Sprintf("%s, for the socket %s, is not a directory", dir, s.FDName()), "the supervisor does not start", "choose another path")
	case unix.Statfs(dir, &file) == nil && file.Flags&unix.ST_RDONLY != 0:
		r.add(Fails, fmt.Sprintf("%s, for the socket %s, is read-only", dir, s.FDName()), "the supervisor does not start", "choose another path")
	case unix.Access(dir, unix.W_OK|unix.X_OK) != nil && os.Geteuid() == 0:
		r.add(Fails, fmt.Sprintf("root may not write to %s, for the socket %s", dir, s.FDName()), "the supervisor does not start", "choose another path")
	default:
		r.fine(fmt.Sprintf("the directory of %s is there", s.Address))
	}
}

// A holder is a socket that has an address already.
type holder struct {
	inode uint64
	uid   string
}

// port looks whether another process has the address.
func (m machine) port(r *report, s fdpass.Spec, u *Unit) {
	host, text, err := net.SplitHostPort(s.Address)
	port, portErr := strconv.Atoi(text)
	if err != nil || portErr != nil || port == 0 {
		return
	}
	want, _ := netip.ParseAddr(host) // a name is looked up by the supervisor alone
	for _, h := range m.holders(s.Network, want, port) {
		pids, seen := m.processesWith(h.inode)
		switch {
		case u != nil && slices.ContainsFunc(pids, func(pid int) bool { return m.inUnit(pid, u.Name) }):
			r.fine(fmt.Sprintf("%s is the unit's", s.Address))
			return
		case len(pids) == 0 && (!seen || h.uid != strconv.Itoa(os.Geteuid())):
			if u != nil && u.is("ActiveState", "active", "reloading") {
				r.add(Unseen, fmt.Sprintf("whose %s is: a process of uid %s has it", s.Address, h.uid), "", "run this as root")
				return
			}
			r.add(Fails, fmt.Sprintf("%s is taken by a process of uid %s", s.Address, h.uid), "the supervisor does not start", fmt.Sprintf("sudo ss -lnp 'sport = :%d' names it; stop it, or choose another port", port))
			return
		case len(pids) == 0: // it is gone by now, or nobody has it any more
		case slices.Equal(pids, []int{1}):
			r.add(Fails, fmt.Sprintf("%s is taken by systemd, for a .socket unit or for a supervisor that it keeps sockets for", s.Address), "the supervisor does not start", "systemctl list-sockets names it; use listen = \"systemd:NAME\", or stop it")
			return
		default:
			pid := pids[len(pids)-1]
			r.add(Fails, fmt.Sprintf("%s is taken by process %d (%s)", s.Address, pid, m.command(pid)), "the supervisor does not start", "stop it, or choose another port")
			return
		}
	}
	r.fine(fmt.Sprintf("%s is free", s.Address))
}

// holders returns the sockets that are in the way of an address. An invalid one stands for all.
func (m machine) holders(network string, want netip.Addr, port int) (found []holder) {
	protocol, listening := "tcp", "0A"
	if strings.HasPrefix(network, fdpass.UDP) {
		protocol, listening = "udp", "07"
	}
	for _, table := range []string{protocol, protocol + "6"} {
		text, err := os.ReadFile(filepath.Join(m.proc, "net", table))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != listening {
				continue
			}
			has, hasPort, ok := parseHexAddress(f[1])
			inode, err := strconv.ParseUint(f[9], 10, 64)
			all := !want.IsValid() || want.IsUnspecified() || has.IsUnspecified()
			if ok && err == nil && hasPort == port && (all || has.Unmap() == want.Unmap()) {
				found = append(found, holder{inode, f[7]})
			}
		}
	}
	return found
}

// parseHexAddress reads the addresses of /proc/net/tcp: words of the machine's byte order, and a port.
func parseHexAddress(text string) (address netip.Addr, port int, ok bool) {
	words, portText, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(words)
	n, portErr := strconv.ParseUint(portText, 16, 16)
	if err != nil || portErr != nil || len(raw)%4 != 0 {
		return netip.Addr{}, 0, false
	}
	for i := 0; i < len(raw) && littleEndian(); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	address, ok = netip.AddrFromSlice(raw)
	return address, int(n), ok
}

// processesWith returns the processes that have a socket open; seen is false where not all may be looked at.
func (m machine) processesWith(inode uint64) (pids []int, seen bool) {
	want := "socket:[" + strconv.FormatUint(inode, 10) + "]"
	seen = true
	processes, _ := filepath.Glob(filepath.Join(m.proc, "[0-9]*"))
	for _, dir := range processes {
		entries, err := os.ReadDir(filepath.Join(dir, "fd"))
		if errors.Is(err, fs.ErrPermission) {
			seen = false
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		for _, e := range entries {
			if link, err := os.Readlink(filepath.Join(dir, "fd", e.Name())); err == nil && link == want {
				pids = append(pids, pid)
				break
			}
		}
	}
	slices.Sort(pids)
	return pids, seen
}

// inUnit reports whether a process belongs to a unit.
func (m machine) inUnit(pid int, unit string) bool {
	text, err := os.ReadFile(filepath.Join(m.proc, strconv.Itoa(pid), "cgroup"))
	return err == nil && (strings.Contains(string(text), "/"+unit+"/") || strings.HasSuffix(strings.TrimSpace(string(text)), "/"+unit))
}

// command is what a process calls itself.
func (m machine) command(pid int) string {
	text, err := os.ReadFile(filepath.Join(m.proc, strconv.Itoa(pid), "comm"))
	if err != nil {
		return "it is gone by now"
	}
	return strings.TrimSpace(string(text))
}
