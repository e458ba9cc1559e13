package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ganetiModules are Ganeti's Python modules, as its packages install them.
const ganetiModules = "/usr/share/ganeti/3.0"

// poll is a run of Ganeti's client.
type poll struct {
	cmd  *exec.Cmd
	stop func() // ends its standard input
	out  bytes.Buffer
}

// pollWithGanetisClient starts Ganeti's unmodified client, which asks all nodes over and over.
func (c *cluster) pollWithGanetisClient() *poll {
	args := []string{"testdata/confd-poll.py", ganetiModules, c.nodes[0].path("lib", "hmac.key"), confdPort}
	for _, address := range c.confdAddresses() {
		host, _, err := net.SplitHostPort(address)
		require.NoError(c.t, err)
		args = append(args, host)
	}
	p := &poll{cmd: exec.Command("/usr/bin/python3", args...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, os.Stderr
	stdin, err := p.cmd.StdinPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, p.cmd.Start())
	p.stop = func() { _ = stdin.Close() }
	return p
}

// judge returns the number of rounds, and what is wrong with them.
func (p *poll) judge(made *commits) (rounds int, violations []string) {
	for line := range strings.Lines(p.out.String()) {
		var began float64
		var serial int64
		var nodes int
		if _, err := fmt.Sscan(line, &began, &serial, &nodes); err != nil {
			return rounds, append(violations, line)
		}
		rounds++
		at := time.UnixMicro(int64(math.Round(began * 1e6)))
		if want := made.before(at.Add(-500 * time.Millisecond)); nodes == 0 || serial < want {
			violations = append(violations, fmt.Sprintf("%d nodes have answered, serial number %d; committed was %d", nodes, serial, want))
		}
	}
	return rounds, violations
}

// Ganeti's unmodified Python client gets an answer with status 0 at every moment of a failover, from a configuration that has every change
// that was committed half a second before.
func TestClusterAnswersGanetisClientDuringFailovers(t *testing.T) {
	if err := exec.Command("/usr/bin/python3", "-c", "import sys; sys.path.insert(0, '"+ganetiModules+"'); import ganeti.confd.client").Run(); err != nil {
		t.Skipf("NOT RUN: Ganeti's Python client is not installed in %s: %v", ganetiModules, err)
	}
	t.Parallel()
	c := newCluster(t, 3, withConfd...)
	ctx, cancel := context.WithCancel(t.Context())
	var made commits
	var working sync.WaitGroup
	working.Go(func() { c.change(ctx, &made) })
	p := c.pollWithGanetisClient()
	defer func() { cancel(); p.stop(); working.Wait() }()
	for range 2 {
		before := made.count()
		c.eventually("no change is made", func() error { return unless(made.count() > before+3, "only %d changes", made.count()) })
		master := c.master()
		master.crash()
		before = made.count()
		c.eventually("no change is made after the failover", func() error { return unless(made.count() > before, "no change") })
		master.start()
		c.awaitUp(master)
	}
	cancel()
	p.stop()
	working.Wait()
	require.NoError(t, p.cmd.Wait())
	rounds, violations := p.judge(&made)
	require.Empty(t, violations, "of %d rounds", rounds)
	t.Logf("%d rounds of queries, %d changes", rounds, made.count())
	require.Greater(t, rounds, 30)
}
