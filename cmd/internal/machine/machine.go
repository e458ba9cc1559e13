//go:build linux

// Package machine makes machines out of namespaces of this one, for tests that need a whole machine: root directory, processes,
// network, host name. It owns the first process of such a machine. Start makes a machine, Command runs a program
// on it, Connect lays a cable between two, Stop ends it.
//
// The root directory is this machine's, below a layer of more files, below a directory in memory that takes all
// writes. A machine ends with the process that has started it, however that process ends, and leaves nothing:
// processes, mounts, network and files exist in its namespaces only.
package machine

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Spec describes a machine.
type Spec struct {
	Hostname string
	Address  string // of its bridge, with the length of the prefix: 192.0.2.11/24
	Hosts    string // content of /etc/hosts; there is no other resolver
	Layer    string // absolute path of a directory with files that lie over this machine's own
}

// Bridge is the network device of each machine. It has the machine's address, and cables end in it.
const Bridge = "gntbr0"

// Machine is a machine that runs.
type Machine struct {
	init   *exec.Cmd
	stdin  io.Closer // the machine ends when it is closed
	cables int
}

// initFlag is the environment variable that makes a program the first process of a machine.
const initFlag = "LOCKSTEP_MACHINE_INIT"

// Start makes a machine. The calling program must call Init before anything else. An error says which step failed.
func Start(spec Spec) (*Machine, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{
		initFlag + "=1",
		"HOSTNAME=" + spec.Hostname,
		"ADDRESS=" + spec.Address,
		"HOSTS=" + spec.Hosts,
		"LAYER=" + spec.Layer,
		"PATH=" + path,
	}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	m := &Machine{init: cmd, stdin: stdin}
	answer, err := bufio.NewReader(stdout).ReadString('\n')
	if answer = strings.TrimSpace(answer); answer != ready {
		m.Stop()
		return nil, fmt.Errorf("machine %s: %w", spec.Hostname, errors.Join(errors.New(answer), err))
	}
	return m, nil
}

// Stop kills all processes of the machine and waits for their end.
func (m *Machine) Stop() {
	_ = m.stdin.Close()
	_ = m.init.Wait()
}

// PID returns the id of the machine's first process on this machine.
func (m *Machine) PID() int { return m.init.Process.Pid }

// Path returns the path by which this machine's programs reach a file of the machine.
func (m *Machine) Path(elem ...string) string {
	return filepath.Join(append([]string{"/proc", strconv.Itoa(m.PID()), "root"}, elem...)...)
}

const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Command returns a command that runs on the machine as root, with an environment of a login and more variables. The
// programs that it starts outlive it.
func (m *Machine) Command(more []string, name string, args ...string) *exec.Cmd {
	enter := []string{
		"--target", strconv.Itoa(m.PID()),
		"--mount", "--pid", "--net", "--uts", "--ipc",
		"--root=" + m.Path(), "--wd=" + m.Path(),
		"--", name,
	}
	cmd := exec.Command("nsenter", append(enter, args...)...)
	cmd.Env = append([]string{"HOME=/root", "TERM=dumb", "LC_ALL=C.UTF-8", "PATH=" + path}, more...)
	return cmd
}

// Connect lays a cable from the bridge of a machine to that of another. The error is that of a command of ip.
func (m *Machine) Connect(other *Machine) error {
	m.cables++
	port := "port" + strconv.Itoa(m.cables)
	other.cables++
	otherPort := "port" + strconv.Itoa(other.cables)
	for _, step := range []struct {
		machine *Machine
		args    []string
	}{
		{m, []string{"link", "add", port, "type", "veth", "peer", "name", otherPort, "netns", strconv.Itoa(other.PID())}},
		{m, []string{"link", "set", port, "master", Bridge, "up"}},
		{other, []string{"link", "set", otherPort, "master", Bridge, "up"}},
	} {
		cmd := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(step.machine.PID()), "--net", "--", "ip"}, step.args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(step.args, " "), err, out)
		}
	}
	return nil
}
