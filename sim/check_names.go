package sim

import (
	"fmt"

	"lockstep/core/paths"
	"lockstep/core/record"
)

// checkNames: the name of a job is the one that its client has given it, from the acknowledgement on. It would survive
// a power loss at that moment. A job of a submission without acknowledgement has its name too, or does not exist. If a
// client is told that its cancel has succeeded, the record names a client, unless the disk has failed.
type checkNames struct {
	names        map[string]string // by tag of the job, of all submissions that were sent
	acknowledged []int64
	garbled      map[int64]bool
	diskFailed   bool
}

func (*checkNames) Name() string { return "names of jobs" }

func (c *checkNames) See(w *World, event any) error {
	if c.names == nil {
		c.names, c.garbled = map[string]string{}, map[int64]bool{}
	}
	switch e := event.(type) {
	case submissionSent:
		for i := range e.submission.jobs {
			c.names[e.submission.tag(i)] = e.submission.name(i)
		}
	case submissionAnswered:
		c.acknowledged = append(c.acknowledged, e.submission.ids...)
		for i, id := range e.submission.ids {
			content, _ := w.disk.Surviving(paths.RecordPath(id))
			if err := requireName(id, content, e.submission.name(i)); err != nil {
				return fmt.Errorf("after a power loss: %w", err)
			}
		}
	case powerLost, daemonStarted:
		return c.allNamed(w, c.acknowledged)
	case finished:
		return c.allNamed(w, w.recordedIDs())
	case diskFailed:
		c.diskFailed = true
	case cancelConfirmed:
		return c.authorRecorded(w, e.id)
	case garbled:
		c.garbled[e.id] = true
	}
	return nil
}

// allNamed checks jobs by their tags. A crash may leave the record of an archived job in the queue.
func (c *checkNames) allNamed(w *World, ids []int64) error {
	for _, id := range ids {
		name, sent := c.names[w.tagOf(id)]
		if !sent || c.garbled[id] {
			continue
		}
		file := w.disk.Find(paths.RecordPath(id))
		if file == nil {
			file = w.disk.Find(paths.ArchivedRecordPath(id))
		}
		var content []byte
		if file != nil {
			content = file.Data
		}
		if err := requireName(id, content, name); err != nil {
			return err
		}
	}
	return nil
}

func (c *checkNames) authorRecorded(w *World, id int64) error {
	if c.diskFailed || w.garbled {
		return nil
	}
	content, durable := w.disk.Surviving(paths.RecordPath(id))
	if !durable {
		content, _ = w.disk.Surviving(paths.ArchivedRecordPath(id))
	}
	if r, err := record.Decode(content); err != nil || accountOf(r.CanceledBy()) == nil {
		return fmt.Errorf("job %d: a cancel was confirmed, and its record would not name a client after a power loss", id)
	}
	return nil
}

func requireName(id int64, content []byte, name string) error {
	r := record.Record{}
	if content != nil {
		var err error
		if r, err = record.Decode(content); err != nil {
			return fmt.Errorf("job %d: %w", id, err)
		}
	}
	if r.Name() != name {
		return fmt.Errorf("job %d was submitted with the name %q, and its record says %q", id, name, r.Name())
	}
	return nil
}
