//go:build linux

package realcluster

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"lockstep/cmd/internal/machine"
)

func TestMain(m *testing.M) {
	machine.Init()
	os.Exit(m.Run())
}

// TestHold puts up the cluster and leaves it until standard input or the test ends, for work by hand.
func TestHold(t *testing.T) {
	if os.Getenv("HOLD") == "" {
		t.Skip("NOT RUN: HOLD is not set")
	}
	var c *cluster
	if os.Getenv("HOLD") == "3" {
		c = newThree(t).cluster
	} else {
		c = newCluster(t)
	}
	for node, m := range c.nodes {
		fmt.Printf("node%d PID %d\n", node+1, m.PID())
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); stop <- syscall.SIGTERM }()
	<-stop
}

// TestReference runs the operator's day on Ganeti's own daemons. With -rewrite it writes the expected texts.
func TestReference(t *testing.T) {
	if os.Getenv("REFERENCE") == "" {
		t.Skip("NOT RUN: REFERENCE is not set")
	}
	c := newCluster(t)
	if os.Getenv("RECORD") != "" {
		defer c.record(t, os.Getenv("RECORD"))()
	} else {
		defer c.watch(t)()
	}
	c.playAll(t, "testdata/before")
	c.playAll(t, "testdata/day")
	c.playAll(t, "testdata/after")
	c.checkLogs(t, ofGaneti...)
}
