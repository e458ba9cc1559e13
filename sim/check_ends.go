package sim

import (
	"bytes"
	"fmt"
	"slices"
)

// checkEnds: a job ends once. Its final file is never changed any more; only
// power loss may take back an end that was not durable. What ends a job that waits
// (a cancel, a rule, a dependency) is its end when somebody was told of it: a
// write that fails is taken back.
type checkEnds struct {
	ends map[int64][]byte
}

func (*checkEnds) Name() string { return "jobs end once" }

func (c *checkEnds) See(w *World, event any) error {
	switch e := event.(type) {
	case fileChanged:
		return c.changed(w, e)
	case appliedHere:
		c.applied(w, e)
	case statusTold:
		if isFinal(e.status) {
			c.told(w, e.id)
		}
	case cancelTold:
		c.told(w, e.id)
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
		return fmt.Errorf("job %d had ended, and its file was changed: %s", e.id, shownJob(e.job, nil))
	case w.truth == nil && e.job.Status().Final() && !slices.Contains(takenBack, e.op):
		c.end(e.id, e.content)
	}
	return nil
}

// applied: what is committed may be seen by somebody from here on. Who was the master
// may have written an end again, before it knew that the first one was committed.
func (c *checkEnds) applied(w *World, e appliedHere) {
	for _, name := range e.touched {
		id, is := jobOfPath(name)
		content, there := e.node.member.mirror.files[name]
		if is && there && bytes.Equal(content, w.truth.files[name]) {
			f := file{data: content}
			if j := f.reading().job; j != nil && j.Status().Final() {
				c.end(id, content)
			}
		}
	}
}

// takenBack are the writes that are, if they fail.
var takenBack = []string{"cancel-job", "reject-job", "doom-job"}

func (c *checkEnds) told(w *World, id int64) {
	if j := w.Job(id); j != nil && j.Status().Final() {
		c.end(id, w.disk.find(w.pathOf(id)).data)
	}
}

func (c *checkEnds) end(id int64, content []byte) {
	if c.ends == nil {
		c.ends = map[int64][]byte{}
	}
	c.ends[id] = content
}
