package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/record"
)

// checkRecords: before a job goes to the archive, its end is recorded beside each job
// that depends on it and has not ended, durably: a node that lacks the archive may have
// to know it. Of a job that is submitted later that is so on a node that is alone, which
// has the whole archive.
//
// A job in the archive that could not be read is read again, and the end is recorded
// then: it does not count here. Nor does a job that was moved there before a directory
// could not be synced: its archiving may have failed, and then the queue still has it,
// with its end. In the end no record is without its job, unless the disk has failed.
type checkRecords struct {
	unread map[string]bool
	moved  map[string]bool // to the archive
}

func (*checkRecords) Name() string { return "ends are recorded" }

func (c *checkRecords) See(w *World, event any) error {
	switch e := event.(type) {
	case fileChanged:
		if archived := w.disk.find(paths.ArchivePath(e.id)); e.job == nil && archived != nil && !w.garbled {
			if c.moved == nil {
				c.moved = map[string]bool{}
			}
			c.moved[paths.ArchivePath(e.id)] = true
			return c.everywhere(w, e.id, archived.reading().job)
		}
	case finished:
		return c.beside(w)
	case diskFailed:
		if c.unread == nil {
			c.unread = map[string]bool{}
		}
		c.unread[e.path] = true
		if e.path == paths.QueueDir || strings.HasPrefix(e.path, paths.ArchiveDir) {
			maps.Copy(c.unread, c.moved)
		}
	case submissionTold:
		for _, id := range e.submission.ids {
			if j := w.Job(id); w.truth == nil && !w.garbled && j != nil && !j.Status().Final() {
				return c.submitted(w, j)
			}
		}
	}
	return nil
}

// everywhere: the job on has been archived in this moment.
func (*checkRecords) everywhere(w *World, on int64, ended *job.Job) error {
	for _, id := range w.recordedIDs() {
		if j := w.Job(id); j != nil && ended != nil && !j.Status().Final() && dependsOn(j, on) {
			if err := recorded(w, id, on, ended.Status()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checkRecords) submitted(w *World, j *job.Job) error {
	for i := range j.Ops {
		for _, d := range dependsOf(j.Ops[i].Input) {
			on := w.disk.find(paths.ArchivePath(d.job))
			if d.job <= 0 || d.job >= int64(j.ID) || on == nil || on.reading().job == nil || c.unread[paths.ArchivePath(d.job)] {
				continue
			}
			if err := recorded(w, int64(j.ID), d.job, on.reading().job.Status()); err != nil {
				return err
			}
		}
	}
	return nil
}

// beside: each record lies beside its job.
func (c *checkRecords) beside(w *World) error {
	for _, name := range w.disk.names(paths.QueueDir) {
		if id, is := paths.ParseRecordName(name); is && len(c.unread) == 0 && w.disk.find(paths.JobPath(id)) == nil {
			return fmt.Errorf("the record of job %d is there, and the job is not", id)
		}
	}
	return nil
}

func dependsOn(j *job.Job, on int64) bool {
	for i := range j.Ops {
		if slices.ContainsFunc(dependsOf(j.Ops[i].Input), func(d waitsFor) bool { return d.job == on }) {
			return on < int64(j.ID)
		}
	}
	return false
}

func recorded(w *World, id, on int64, status job.Status) error {
	content, _ := w.disk.surviving(paths.RecordPath(id))
	r, err := record.Decode(content)
	if end, known := r.End(on); err != nil || !known || end != status {
		return fmt.Errorf("job %d depends on job %d, which is archived: power loss, or another master, would leave no record that it ended with %s", id, on, status)
	}
	return nil
}
