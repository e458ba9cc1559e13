package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
	"lockstep/persistence"
)

// clusterSizes are the numbers of nodes that are measured.
var clusterSizes = []int{3, 5}

// clusterNames are the measurements of a cluster of that size.
func clusterNames(size int) []string {
	return []string{clusterName("Jobs", size), clusterName("SubmitRate", size), clusterName("RaftRate", size), clusterName("Submit", size)}
}

// clusterName is the name of a measurement of a cluster, or of what is measured beside it.
func clusterName(what string, size int) string { return fmt.Sprintf("Cluster%s/nodes=%d", what, size) }

// clusterMeasures are the rows of a cluster. Its nodes share the machine with one node, and with two groups of as many
// nodes of raft alone.
func clusterMeasures(size int) []measure {
	name := func(what string) string { return clusterName(what, size) }
	rows := []measure{
		{name: name("Jobs"), text: fmt.Sprintf("%d nodes: no-ops end to end, 20 run slots; one node", size),
			unit: jobsRate, limit: name("AloneJobs")},
		{name: name("SubmitRate"), text: fmt.Sprintf("%d nodes: submissions, 64 clients; raft that writes files", size),
			unit: jobsRate, limit: name("FilesRate")},
		{name: name("SubmitRate"), text: "the same; one node", unit: jobsRate, limit: name("AloneSubmitRate")},
		{name: name("RaftRate"), text: fmt.Sprintf("%d nodes: raft alone, commits for 64 clients", size), unit: jobsRate},
		{name: name("Submit"), text: fmt.Sprintf("%d nodes: one submission, one client; commit of raft alone", size),
			unit: nanoseconds, limit: name("RaftCommit")},
		{name: name("Submit"), text: "the same; one node", unit: nanoseconds, limit: name("AloneSubmit")},
	}
	if size == 3 {
		for row, bound := range map[int]float64{0: 0.7, 1: 0.6, 2: 1, 4: 1.8} {
			rows[row].targets = []target{{ofRatio: true, bound: bound}}
		}
	}
	return rows
}

// commandsPaused is a filter rule: ordinary jobs are only queued.
var commandsPaused = []any{nil, 0, [][]any{{"opcode", []any{"=", "OP_ID", "OP_RUN_COMMAND"}}}, "PAUSE", []any{}}

// comparison is a cluster and what is measured beside it.
type comparison struct {
	size           int
	daemons        []*daemon
	cluster, alone *clusterSide
	raft, files    *referenceGroup
	entry          []byte // of a submission
}

// clusterSide is a cluster or a single node with its clients.
type clusterSide struct {
	prefix     string // of the names of its measurements
	one        *client
	submitters chan *client
}

// scenarioCluster returns the scenario that compares a cluster of that size with a single daemon and with raft alone.
func scenarioCluster(size int) func(*bench) error {
	return func(b *bench) error {
		p, err := b.startComparison(size)
		defer p.stop()
		if err != nil {
			return err
		}
		for round := range b.each(b.rounds) {
			err := alternate(round,
				func() error { return b.clusterJobs(p, p.alone) },
				func() error { return b.clusterJobs(p, p.cluster) },
				func() error { return b.clusterSubmissions(p, p.alone) },
				func() error { return b.clusterSubmissions(p, p.cluster) },
				func() error { return b.commits(p, p.raft, "RaftCommit", "RaftRate") },
				func() error { return b.commits(p, p.files, "", "FilesRate") })
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func (b *bench) startComparison(size int) (*comparison, error) {
	p := &comparison{size: size}
	nodes, master, err := b.startCluster(size)
	p.daemons = nodes
	if err != nil {
		return p, err
	}
	alone, c, err := b.startDaemon(false)
	if err != nil {
		return p, err
	}
	c.close()
	p.daemons = append(p.daemons, alone)
	if p.cluster, err = newClusterSide("", master); err != nil {
		return p, err
	}
	if p.alone, err = newClusterSide("Alone", alone); err != nil {
		return p, err
	}
	if p.entry, err = submissionEntry(alone, p.alone.one); err != nil {
		return p, err
	}
	if p.raft, err = b.startReference(nodes, false); err != nil {
		return p, err
	}
	p.files, err = b.startReference(nodes, true)
	return p, err
}

func (p *comparison) stop() {
	for _, g := range []*referenceGroup{p.raft, p.files} {
		if g != nil {
			g.stop()
		}
	}
	for _, s := range []*clusterSide{p.cluster, p.alone} {
		if s != nil {
			s.close()
		}
	}
	for _, d := range p.daemons {
		d.kill()
		d.endJobs()
	}
}

func newClusterSide(prefix string, d *daemon) (*clusterSide, error) {
	s := &clusterSide{prefix: prefix, submitters: make(chan *client, clients)}
	var err error
	if s.one, err = d.dial(persistence.LuxiSocket); err != nil {
		return nil, err
	}
	for range clients {
		c, err := d.dial(persistence.LuxiSocket)
		if err != nil {
			s.close()
			return nil, err
		}
		s.submitters <- c
	}
	err = s.one.call(nil, "LockstepSetSettings", map[string]any{"max_running_jobs": 20})
	if err == nil {
		err = s.one.call(nil, "ReplaceFilter", commandsPaused...)
	}
	return s, err
}

func (s *clusterSide) close() {
	s.one.close()
	for len(s.submitters) > 0 {
		(<-s.submitters).close()
	}
}

// submissionEntry is the entry of the log for one submission: the file of its job and the serial.
func submissionEntry(d *daemon, c *client) ([]byte, error) {
	id, err := c.submit(command())
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(d.dataDir(), paths.JobPath(id)))
	if err != nil {
		return nil, err
	}
	changes := replication.WriteChanges(&messages.WriteFiles{Files: []*messages.FileWrite{{Path: paths.JobPath(id), Content: content}},
		CommitRecord: &messages.FileWrite{Path: paths.SerialPath, Content: paths.FormatSerial(id)}})
	return (&messages.LogEntry{Origin: "n1", Incarnation: "reference", Number: 1, Changes: changes}).Marshal(), nil
}

func (b *bench) clusterJobs(p *comparison, s *clusterSide) error {
	list := repeatJobs(b.sizes.jobs, noOp)
	began := time.Now()
	ids, err := s.one.submitMany(list)
	if err == nil {
		err = s.one.awaitSuccess(ids...)
	}
	b.recordRate(clusterName(s.prefix+"Jobs", p.size), time.Since(began), len(list))
	return err
}

func (b *bench) clusterSubmissions(p *comparison, s *clusterSide) error {
	submit := func(c *client) error {
		_, err := c.submit(command())
		return err
	}
	if err := b.timeEach(clusterName(s.prefix+"Submit", p.size), b.sizes.submits, func() error { return submit(s.one) }); err != nil {
		return err
	}
	n := clients * b.sizes.submitters
	began := time.Now()
	err := parallel(n, clients, func(int) error {
		c := <-s.submitters
		defer func() { s.submitters <- c }()
		return submit(c)
	})
	b.recordRate(clusterName(s.prefix+"SubmitRate", p.size), time.Since(began), n)
	return err
}

// commitsPerSubmission is how many more commits than submissions are made in a round, since they take less time.
const commitsPerSubmission = 5

// commits measures raft alone. The samples have the names one, for the time of one commit, and rate; with one "" only the rate is
// measured.
func (b *bench) commits(p *comparison, g *referenceGroup, one, rate string) error {
	if one != "" {
		answer, err := g.leader.order(referenceOrder{Clients: 1, Commits: b.sizes.submits, Entry: p.entry})
		if err != nil {
			return err
		}
		b.record(clusterName(one, p.size), float64(answer.Median), b.sizes.submits)
	}
	n := clients * b.sizes.submitters * commitsPerSubmission
	answer, err := g.leader.order(referenceOrder{Clients: clients, Commits: n, Entry: p.entry})
	if err != nil {
		return err
	}
	b.recordRate(clusterName(rate, p.size), answer.Took, n)
	return nil
}
