package sim

import (
	"bytes"
	"fmt"
	"slices"
)

// checkEnds: a job ends once, and its final file never changes. Only power loss may take back
// an end that was not durable. A cancel, a rule or a dependency that ends a pending job counts
// as its end once a client was told: the queue rolls back a write that fails.
type checkEnds struct {
	ends map[int64][]byte
}

func (*checkEnds) Name() string { return "jobs end once" }

func (c *checkEnds) See(w *World, event any) error {
	switch e := event.(type) {
	case fileChanged:
		return c.changed(w, e)
	case entriesApplied:
		c.applied(w, e)
	case statusReported:
		if isFinal(e.status) {
			c.reported(w, e.id)
		}
	case cancelConfirmed:
		c.reported(w, e.id)
	case garbled:
		delete(c.ends, e.id)
	case powerLost:
		for id := range c.ends { // the order does not matter
			if j := w.Job(id); j == nil || !j.Status().Final() {
				delete(c.ends, id)
			}
		}
	}
	return nil
}

func (c *checkEnds) changed(w *World, e fileChanged) error {
	end, ended := c.ends[e.id]
	switch {
	case e.job == nil && w.Job(e.id) == nil: // not archived
		delete(c.ends, e.id)
	case e.job == nil:
	case ended && !bytes.Equal(end, e.content):
		return fmt.Errorf("job %d had ended, and its file was changed: %s", e.id, jobText(e.job, nil))
	case w.oracle == nil && e.job.Status().Final() && !slices.Contains(rolledBackOps, e.op):
		c.end(e.id, e.content)
	}
	return nil
}

// applied records the ends that a node has applied: clients may see them from then on. A former
// master may have written an end a second time, before it knew that the first was committed.
func (c *checkEnds) applied(w *World, e entriesApplied) {
	for _, name := range e.touched {
		id, is := jobOfPath(name)
		content, there := e.node.cluster.expected.files[name]
		if is && there && bytes.Equal(content, w.oracle.files[name]) {
			if j := parseJob(content).job; j != nil && j.Status().Final() {
				c.end(id, content)
			}
		}
	}
}

// rolledBackOps are the writes that the queue rolls back when they fail.
var rolledBackOps = []string{"cancel-job", "reject-job", "doom-job"}

func (c *checkEnds) reported(w *World, id int64) {
	if j := w.Job(id); j != nil && j.Status().Final() {
		c.end(id, w.disk.Find(w.pathOf(id)).Data)
	}
}

func (c *checkEnds) end(id int64, content []byte) {
	if c.ends == nil {
		c.ends = map[int64][]byte{}
	}
	c.ends[id] = content
}
