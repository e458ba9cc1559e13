package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/rawjson"
)

// checkDepends: an opcode begins only when every job that it depends on has durably ended with
// an accepted status. A job with a failed dependency therefore never passes that opcode, and
// does not succeed. No job is ended for a dependency that can still be met or was met.
// Acknowledged ends count, whatever the deciding node has of them.
type checkDepends struct{ garbled map[int64]bool }

func (*checkDepends) Name() string { return "dependencies" }

func (c *checkDepends) See(w *World, event any) error {
	switch e := event.(type) {
	case opcodeStarted:
		for _, d := range dependenciesOf(e.input) {
			if err := c.met(w, e.job, d, w.survivingJob(d.job)); err != nil {
				return fmt.Errorf("opcode %d of job %d has begun: %w", e.op, e.job, err)
			}
		}
	case fileChanged:
		if e.job != nil && e.job.Status().Final() {
			return c.doomed(w, e.job)
		}
	case garbled:
		if c.garbled == nil {
			c.garbled = map[int64]bool{}
		}
		c.garbled[e.id] = true
	case finished:
		return c.allEnded(w)
	}
	return nil
}

// dependency is a dependency in a job's file.
type dependency struct {
	job      int64
	statuses []string
}

func dependenciesOf(input json.RawMessage) []dependency {
	var depends [][2]json.RawMessage
	_ = rawjson.ReadObject(input, func(key, value []byte) { // an input that is no object has no dependencies
		if string(key) == "depends" && string(value) != "null" {
			_ = json.Unmarshal(value, &depends)
		}
	})
	var all []dependency
	for _, pair := range depends {
		var d dependency
		mustDecode(pair[0], &d.job)
		mustDecode(pair[1], &d.statuses)
		all = append(all, d)
	}
	return all
}

// met returns nil if a dependency of job id is met: the other job has ended with an accepted status. The default is success or error.
func (c *checkDepends) met(_ *World, id int64, d dependency, on *job.Job) error {
	switch {
	case c.garbled[d.job]:
		return nil
	case on == nil:
		return fmt.Errorf("job %d does not exist", d.job)
	case d.job >= id:
		return fmt.Errorf("job %d is not an earlier one", d.job)
	}
	status := on.Status().String()
	wanted := d.statuses
	if len(wanted) == 0 {
		wanted = []string{"success", "error"}
	}
	if !slices.Contains(wanted, status) {
		return fmt.Errorf("job %d is %s, wanted was one of %v", d.job, status, wanted)
	}
	return nil
}

// doomed: when a job was ended for a dependency, one of its dependencies cannot be met.
func (c *checkDepends) doomed(w *World, j *job.Job) error {
	at := slices.IndexFunc(j.Ops, func(op job.Op) bool {
		return bytes.Contains(op.Result, []byte("Dependency error: ")) || bytes.Contains(op.Result, []byte("Job canceled: job "))
	})
	if at < 0 {
		return nil
	}
	hopeless := func(d dependency) bool {
		on := w.Job(d.job)
		return c.garbled[d.job] || on == nil || d.job >= int64(j.ID) || on.Status().Final() && c.met(w, int64(j.ID), d, on) != nil
	}
	if slices.ContainsFunc(dependenciesOf(j.Ops[at].Input), hopeless) {
		return nil
	}
	return fmt.Errorf("job %d was ended: %s; but all that it depends on has ended as wanted, or may yet", j.ID, j.Ops[at].Result)
}

// survivingJob returns the ended job that a power loss would leave now; nil if the file would be
// lost or the job not have ended. A job that is being archived has one name or the other.
func (w *World) survivingJob(id int64) *job.Job {
	for _, name := range []string{paths.JobPath(id), paths.ArchivePath(id)} {
		content, durable := w.disk.Durable(name)
		if j, err := job.Decode(content); durable && err == nil && j.Status().Final() {
			return j
		}
	}
	return nil
}

// allEnded: a job that has succeeded has no unmet dependency.
func (c *checkDepends) allEnded(w *World) error {
	for _, id := range w.recordedIDs() {
		j := w.Job(id)
		if j == nil || j.Status() != job.Success {
			continue
		}
		for i := range j.Ops {
			for _, d := range dependenciesOf(j.Ops[i].Input) {
				if err := c.met(w, id, d, w.Job(d.job)); err != nil {
					return fmt.Errorf("job %d has succeeded: opcode %d: %w", id, i, err)
				}
			}
		}
	}
	return nil
}
