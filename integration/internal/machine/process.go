package machine

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is a process of the machine, as it is seen inside.
type Process struct {
	Pid, Parent int
	State       string // one letter as in proc_pid_stat(5): "Z" is a zombie
	Name        string
	Cgroup      string // from the machine's root: "/system.slice/x.service"
}

// Zombie reports whether the process has ended and was not waited for.
func (p Process) Zombie() bool { return p.State == "Z" }

// Processes returns all processes of the machine, zombies included, in the order of their pids. Processes that end meanwhile are left out.
func (m *Machine) Processes() ([]Process, error) {
	proc := fmt.Sprintf("/proc/%d/root/proc", m.Pid())
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := m.process(filepath.Join(proc, e.Name())); err == nil {
			p.Pid = pid
			all = append(all, p)
		}
	}
	return all, nil
}

// UnitProcesses returns the processes in the cgroup of a service, and below it, zombies included.
func (m *Machine) UnitProcesses(unit string) ([]Process, error) {
	all, err := m.Processes()
	if err != nil {
		return nil, err
	}
	var of []Process
	for _, p := range all {
		if strings.Contains(p.Cgroup+"/", "/"+unit+"/") {
			of = append(of, p)
		}
	}
	return of, nil
}

func (m *Machine) process(dir string) (Process, error) {
	var p Process
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Name":
			p.Name = value
		case "State":
			p.State, _, _ = strings.Cut(value, " ")
		case "PPid":
			if p.Parent, err = strconv.Atoi(value); err != nil {
				return p, err
			}
		}
	}
	groups, err := os.ReadFile(filepath.Join(dir, "cgroup"))
	if err != nil {
		return p, err
	}
	lines := bufio.NewScanner(bytes.NewReader(groups))
	for lines.Scan() {
		// The path is as this process sees it: below the machine's own cgroup.
		if path, ok := strings.CutPrefix(lines.Text(), "0::"); ok {
			_, p.Cgroup, _ = strings.Cut(path, "/"+filepath.Base(m.cgroup))
		}
	}
	return p, nil
}
