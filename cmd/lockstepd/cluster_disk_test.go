package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// smallDisk mounts a separate data directory of 192 MiB for a node. Without root the test is
// skipped.
func (m *member) smallDisk() {
	m.t.Helper()
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=192m,mode=0700", "tmpfs", m.path("lib")).CombinedOutput()
	if err != nil {
		m.t.Logf("NOT TESTED: a disk that is full, which needs root and tmpfs: %v: %s", err, out)
		m.t.Skip("NOT RUN: it needs a tmpfs, which root can mount")
	}
	m.t.Cleanup(func() {
		m.kill()
		m.endJobs()
		_ = exec.Command("umount", m.path("lib")).Run()
	})
}

// fill fills the node's disk.
func (m *member) fill() {
	m.t.Helper()
	file, err := os.Create(m.path("lib", "ballast"))
	require.NoError(m.t, err)
	defer file.Close()
	for size := 1 << 20; size > 0; size /= 16 {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
		require.ErrorIs(m.t, err, syscall.ENOSPC)
	}
}

// free removes the file that fills the disk, and restarts the daemon, as systemd does, if it
// has ended.
func (m *member) free() {
	m.t.Helper()
	require.NoError(m.t, os.Remove(m.path("lib", "ballast")))
	if m.ended() {
		m.t.Logf("the daemon of %s has ended over its full disk", m.name)
		m.start()
	}
}

// A full disk of a candidate affects no other node. If the master's disk is full, another node
// becomes the master. With free space again, both nodes catch up.
func TestClusterFullDisk(t *testing.T) {
	t.Parallel()
	c := newClusterAt(t, loopback(t, 3), func(i int, m *member) {
		if i == 1 {
			m.smallDisk()
		}
	})
	small := c.nodes[1]
	if c.master() == small {
		c.nodes[0].cli("node", "promote", c.nodes[0].name)
	}
	u := c.user(indexOf(c, c.master()))
	small.fill()
	for range 5 {
		c.submitInBatches(100, 10)
	}
	u.awaitStatus(u.submit(command("true")), "success")
	t.Log("candidate with a full disk:\n" + small.listedState(c.master()))
	small.free()
	c.awaitUp(small)
	c.awaitEqual()

	_, _, _ = c.master().tryCLI("node", "promote", small.name) // its answer may be lost
	c.eventually("the node with the small disk does not become master", func() error {
		if !small.serves() {
			return errors.New("not yet")
		}
		return nil
	})
	u.close()
	u.at = indexOf(c, small)
	u.submit(command("true"))
	small.fill()
	filled := time.Now()
	id := u.submit(command("true"))
	took := time.Since(filled)
	require.Less(t, took, 10*time.Second)
	t.Logf("the next acknowledged submission came %s after the master's disk was full", took)
	u.awaitStatus(id, "success")
	small.up = !small.ended()
	next := c.master()
	require.NotEqual(t, small.name, next.name)
	t.Log("former master with a full disk:\n" + small.listedState(next))
	small.free()
	c.awaitUp(small)
	c.awaitEqual()
}

// listedState is the state of this node in the list of another node.
func (m *member) listedState(at *member) string {
	for line := range strings.Lines(at.cli("node", "list")) {
		if strings.HasPrefix(line, m.name) {
			return fmt.Sprint(line)
		}
	}
	return ""
}
