package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/sim/longtest"
)

// lockstepProgram builds the command line program, which only these tests need.
var lockstepProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(programs, "lockstep")
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "lockstep/cmd/lockstep").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build lockstep: %w\n%s", err, out)
	}
	return path, nil
})

// cluster is a set of real daemons that share a queue, created by the commands of the
// documentation.
type cluster struct {
	t      testing.TB
	shared string // directory that the commands of jobs write to, wherever they run
	token  string // file with a join token of the first node
	nodes  []*member
}

// member is one node with its own directories.
type member struct {
	*daemon
	name    string
	address string
	flags   []string // of its daemon
	mond    string   // address of its MonD; "": off
	prefix  []string // prefix of every command: it selects the network namespace
	up      bool     // its daemon was started, and not ended by the test
}

// clustersAtWork bounds the clusters that a test works on, because leases lapse beside heavy work. A cluster that gets its nodes and their
// votes only waits for some seconds, and is not counted: with -parallel 4 two tests work while the next two clusters are made.
var clustersAtWork = make(chan struct{}, 2)

// newCluster makes a cluster and starts it. When it returns, all nodes have a vote and one
// node is the master.
func newCluster(t testing.TB, size int, flags ...string) *cluster {
	t.Helper()
	return newClusterAt(t, loopback(t, size), func(_ int, m *member) { m.flags = flags })
}

// newClusterAt makes a cluster of nodes with these addresses. prepare may change each node
// before it is created.
func newClusterAt(t testing.TB, addresses []string, prepare func(i int, m *member)) *cluster {
	t.Helper()
	longtest.Skip(t)
	c := &cluster{t: t, shared: t.TempDir()}
	t.Cleanup(func() { c.remove() })
	c.token = filepath.Join(c.shared, "token")
	for i, address := range addresses {
		prepare(i, c.newMember(fmt.Sprintf("n%d", i+1), address))
	}
	first := c.nodes[0]
	first.cli("node", "init", "--address", first.address, "--name", first.name, "--data-dir", first.path("lib"))
	first.start()
	c.newToken(first)
	var starting sync.WaitGroup
	failed := make([]error, len(c.nodes))
	for i, m := range c.nodes {
		if i > 0 {
			m.join(first, c.token)
			starting.Go(func() { failed[i] = m.tryStart() })
		}
	}
	starting.Wait()
	require.NoError(t, errors.Join(failed...))
	c.awaitVotes(len(c.nodes))
	clustersAtWork <- struct{}{}
	t.Cleanup(func() { <-clustersAtWork })
	return c
}

// remove ends all nodes and removes their files, in parallel, because each node takes some
// time.
func (c *cluster) remove() {
	var removing sync.WaitGroup
	for _, m := range c.nodes {
		removing.Go(func() {
			m.kill()
			m.endJobs()
			_ = os.RemoveAll(m.root)
		})
	}
	removing.Wait()
}

func (c *cluster) newMember(name, address string) *member {
	m := &member{daemon: newDaemon(c.t), name: name, address: address}
	require.NoError(c.t, os.Mkdir(m.path("lib"), 0o700))
	c.nodes = append(c.nodes, m)
	return m
}

// newToken writes a join token of a node to c.token.
func (c *cluster) newToken(at *member) {
	c.t.Helper()
	token := at.cli("node", "token", "--data-dir", at.path("lib"))
	require.NoError(c.t, os.WriteFile(c.token, []byte(token), 0o600))
}

// join adds the node to the cluster, and does not start its daemon.
func (m *member) join(at *member, token string, more ...string) {
	m.t.Helper()
	args := append([]string{"node", "add", "--address", m.address, "--name", m.name, "--data-dir", m.path("lib"),
		"--join", at.address, "--token-file", token}, more...)
	m.cli(args...)
}

// loopback reserves addresses without a listener for this test. Their ports are outside the
// range of outgoing connections, so no connection takes a port while a daemon is down.
func loopback(t testing.TB, size int) []string {
	t.Helper()
	for net3 := 1; net3 < 250; net3++ {
		reserved, err := net.Listen("tcp", fmt.Sprintf("127.77.%d.254:7400", net3))
		if err != nil {
			continue // another test's
		}
		t.Cleanup(func() { _ = reserved.Close() })
		var addresses []string
		for i := range size {
			addresses = append(addresses, fmt.Sprintf("127.77.%d.%d:7400", net3, i+1))
		}
		return addresses
	}
	t.Fatal("there are no free loopback addresses")
	return nil
}

// command is a command that runs a program on this node.
func (m *member) command(program string, args ...string) *exec.Cmd {
	line := append(append([]string{}, m.prefix...), program)
	line = append(line, args...)
	return exec.Command(line[0], line[1:]...)
}

// tryCLI runs the command line program against this node's daemon.
func (m *member) tryCLI(args ...string) (out, errorText string, code int) {
	m.t.Helper()
	program, err := lockstepProgram()
	require.NoError(m.t, err)
	cmd := m.command(program, args...)
	cmd.Env = append(os.Environ(), "LOCKSTEP_SOCKET="+m.path("run", "socket", "ganeti-query"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// cli is tryCLI for a command that must succeed.
func (m *member) cli(args ...string) string {
	m.t.Helper()
	out, stderr, code := m.tryCLI(args...)
	require.Zero(m.t, code, "lockstep %s: %s%s", strings.Join(args, " "), out, stderr)
	return out
}

// start returns when the daemon takes connections.
func (m *member) start() {
	m.t.Helper()
	require.NoError(m.t, m.tryStart(), "node %s", m.name)
}

func (m *member) tryStart() error {
	const says = "lockstepd started"
	m.cmd = m.command(filepath.Join(programs, "lockstepd"), m.args(m.flags...)...)
	stderr, err := m.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := m.cmd.Start(); err != nil {
		return err
	}
	ready, done := make(chan struct{}), make(chan struct{})
	m.done = done
	m.up = true
	go func(cmd *exec.Cmd) {
		lines, told := bufio.NewScanner(stderr), false
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			m.mu.Lock()
			m.log.WriteString(lines.Text() + "\n")
			m.mu.Unlock()
			if !told && strings.Contains(lines.Text(), says) {
				told = true
				close(ready)
			}
		}
		_ = cmd.Wait()
		close(done)
	}(m.cmd)
	select {
	case <-ready:
		return nil
	case <-done:
		return fmt.Errorf("the daemon has ended:\n%s", m.logged())
	case <-time.After(patience):
		return fmt.Errorf("the daemon takes no connections:\n%s", m.logged())
	}
}

// crash ends the daemon with SIGKILL.
func (m *member) crash() {
	m.up = false
	m.kill()
}

// end stops the daemon in order.
func (m *member) end() {
	m.t.Helper()
	m.up = false
	require.Zero(m.t, m.stop(), "exit status of node %s", m.name)
}

func (m *member) signal(s syscall.Signal) {
	m.t.Helper()
	require.NoError(m.t, m.cmd.Process.Signal(s))
}

// ended reports whether the daemon has ended by itself.
func (m *member) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// awaitVotes waits until this number of nodes has a vote, and one node is the master.
func (c *cluster) awaitVotes(want int) {
	c.t.Helper()
	c.eventually("not all nodes get a vote", func() error {
		master, err := c.findMaster()
		if err != nil {
			return err
		}
		nodes, err := master.list()
		if err != nil {
			return err
		}
		if votes := voters(nodes); votes != want {
			return fmt.Errorf("%d nodes have a vote, not %d", votes, want)
		}
		return nil
	})
}

func voters(nodes answer.Nodes) int {
	votes := 0
	for _, n := range nodes.Nodes {
		if n.Voter {
			votes++
		}
	}
	return votes
}

// eventually is require.Eventually; when the time is over, it reports the last error of tried.
func (c *cluster) eventually(what string, tried func() error) {
	c.t.Helper()
	eventuallyWithin(c.t, 2*patience, what, tried)
}

func eventuallyWithin(t testing.TB, limit time.Duration, what string, tried func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := tried()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// others are all nodes except than.
func (c *cluster) others(than *member) []*member {
	var others []*member
	for _, m := range c.nodes {
		if m != than {
			others = append(others, m)
		}
	}
	return others
}
