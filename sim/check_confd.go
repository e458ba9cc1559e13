package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/core/confd"
)

// queryServer answers the queries of a daemon about the configuration. It remembers the serial numbers of the configurations.
type queryServer struct {
	daemon *daemon
	serial int64 // that answers are made from; 0: none yet
}

// Use is part of the port.
func (q *queryServer) Use(s *confd.Snapshot) {
	q.serial = s.Serial()
	q.daemon.world.notify(configShown{q})
}

// configShown: a daemon answers queries from another configuration.
type configShown struct{ server *queryServer }

// showMax is the time from the moment at which a node has applied a change of the configuration until its answers have it. The log
// tells the nodes of a commit up to 50 ms late, so that 150 ms from the commit remain.
const showMax = 100 * time.Millisecond

// checkConfd: every node of a cluster, master or not, answers from each change of the configuration within showMax after it has
// applied it. A node does not go back while its daemon runs. In the end each answers from what its files say.
type checkConfd struct {
	due        []dueAnswer // in the order of their times
	shown      map[*queryServer]int64
	restarting time.Time           // until then an actor may wait for its restart after a panic
	failed     map[*node]time.Time // when a file of the configuration, or their directory, could not be read or written last
	// hasWhole says that a client has sent a whole configuration: that may have a lower serial number than the one before, so serial
	// numbers do not tell what is later. From then on only the end is judged.
	hasWhole bool
}

// dueAnswer is the serial number that a node must show from a moment on.
type dueAnswer struct {
	server *queryServer
	serial int64
	at     time.Time
}

func (*checkConfd) Name() string { return "queries are answered from what is committed" }

func (c *checkConfd) See(w *World, event any) error {
	switch e := event.(type) {
	case entriesApplied:
		if d, at := e.node.daemon, e.node.cluster.expected.config; d != nil && at.Config != nil {
			c.expect(d.queries, at.Config.Serial, w.clock.Now().Add(showMax))
		}
	case configChangeSent:
		if e.change.whole > 0 {
			c.hasWhole, c.due = true, nil
		}
	case configShown:
		return c.show(e.server)
	case diskFailed:
		if c.failed == nil {
			c.failed = map[*node]time.Time{}
		}
		if e.path == "." || strings.HasPrefix(e.path, "config.") {
			c.failed[e.node] = w.clock.Now()
		}
	case daemonGoesOn:
		for i, d := range c.due {
			if d.server.daemon.node == e.node {
				c.due[i].at = w.clock.Now().Add(showMax)
			}
		}
	case stalled:
		for i := range c.due {
			c.due[i].at = w.clock.Now().Add(showMax)
		}
	case panicked:
		c.restarting = w.clock.Now().Add(restartMax)
	case timePassed:
		return c.check(w.clock.Now())
	case finished:
		return c.final(w)
	}
	return nil
}

// expect records what a server must show, unless that is due already. A log that is repeated begins before what the node has.
func (c *checkConfd) expect(s *queryServer, serial int64, at time.Time) {
	known := func(d dueAnswer) bool { return d.server == s && d.serial == serial }
	if s.serial < serial && !c.hasWhole && !slices.ContainsFunc(c.due, known) {
		c.due = append(c.due, dueAnswer{s, serial, at})
	}
}

func (c *checkConfd) show(s *queryServer) error {
	if c.shown == nil {
		c.shown = map[*queryServer]int64{}
	}
	before := c.shown[s]
	c.shown[s] = s.serial
	c.due = slices.DeleteFunc(c.due, func(d dueAnswer) bool { return d.server == s && d.serial <= s.serial })
	if s.serial < before && !c.hasWhole && s.daemon.world.config != nil && s.daemon.world.oracle != nil {
		return fmt.Errorf("%s answers from serial number %d after it has answered from %d", s.daemon.node.name, s.serial, before)
	}
	return nil
}

// answersAfterError is the time for which a node may answer from an older configuration, or not at all, after an error of its disk: the
// configuration must be read, or the journal of unknown content replaced, and that is tried again with growing delays.
const answersAfterError = 2 * time.Minute

// restartMax is the time within which an actor that has panicked, and those that it asks, work again.
const restartMax = 10 * time.Second

// check reports a server that is late. One whose daemon has ended owes nothing. The time in which a daemon or its actors are stopped does
// not count, nor the time in which a node cannot make its configuration durable.
func (c *checkConfd) check(now time.Time) error {
	c.due = slices.DeleteFunc(c.due, func(d dueAnswer) bool { return d.server.daemon.node.daemon != d.server.daemon })
	for i, d := range c.due {
		n := d.server.daemon.node
		if failed, ok := c.failed[n]; d.server.daemon.life.Paused || now.Before(c.restarting) || ok && now.Before(failed.Add(answersAfterError)) {
			c.due[i].at = now.Add(showMax)
			continue
		}
		if now.After(d.at) {
			return fmt.Errorf("%s has applied serial number %d, and %v later it answers from %d", n.name, d.serial, showMax, d.server.serial)
		}
	}
	return nil
}

func (c *checkConfd) final(w *World) error {
	for _, n := range w.nodes {
		if n.daemon == nil || !n.daemon.ready {
			continue
		}
		at, err := n.configPosition()
		if err != nil {
			return err
		}
		if at.Config != nil && n.daemon.queries.serial != at.Config.Serial {
			return fmt.Errorf("%s has the configuration with serial number %d, and answers from %d",
				n.name, at.Config.Serial, n.daemon.queries.serial)
		}
	}
	return nil
}
