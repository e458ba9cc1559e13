package sim

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/record"
)

// checkRecords: before a job is archived, its end is recorded durably beside each unfinished job
// that depends on it, because a node without the archive may have to know it. For a job that is
// submitted later this holds on a node without a cluster, which has the whole archive.
//
// Some archived jobs do not count. A job that could not be read is read again, and its end is
// recorded then. The archiving of a moved job may have failed: a directory could not be synced, or
// the answer was lost in a crash and the disk refused the repeated move. The queue still has such a
// job with its end, and archives it later. In the end no record is without its job, unless the disk
// has failed.
type checkRecords struct {
	unreadable map[string]bool
	archived   map[string]bool // files moved to the archive
}

func (*checkRecords) Name() string { return "ends are recorded" }

func (c *checkRecords) See(w *World, event any) error {
	switch e := event.(type) {
	case fileChanged:
		if archived := w.disk.Find(paths.ArchivePath(e.id)); e.job == nil && archived != nil && !w.garbled {
			if c.archived == nil {
				c.archived = map[string]bool{}
			}
			c.archived[paths.ArchivePath(e.id)] = true
			return c.recordedByDependents(w, e.id, jobIn(archived).job)
		}
	case finished:
		return c.noOrphans(w)
	case diskFailed:
		if c.unreadable == nil {
			c.unreadable = map[string]bool{}
		}
		c.unreadable[e.path] = true
		if id, is := paths.ParseJobName(path.Base(e.path)); is && c.archived[paths.ArchivePath(id)] {
			c.unreadable[paths.ArchivePath(id)] = true
		}
		if e.path == paths.QueueDir || strings.HasPrefix(e.path, paths.ArchiveDir) {
			maps.Copy(c.unreadable, c.archived)
		}
	case submissionAnswered:
		for _, id := range e.submission.ids {
			if j := w.Job(id); w.oracle == nil && !w.garbled && j != nil && !j.Status().Final() {
				return c.submitted(w, j)
			}
		}
	}
	return nil
}

// recordedByDependents checks a job that was archived in this step: each unfinished job that
// depends on it must have its end recorded.
func (*checkRecords) recordedByDependents(w *World, on int64, ended *job.Job) error {
	for _, id := range w.recordedIDs() {
		if j := w.Job(id); j != nil && ended != nil && !j.Status().Final() && dependsOn(j, on) {
			if err := requireRecord(w, id, on, ended.Status()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checkRecords) submitted(w *World, j *job.Job) error {
	for i := range j.Ops {
		for _, d := range dependenciesOf(j.Ops[i].Input) {
			on := w.disk.Find(paths.ArchivePath(d.job))
			if d.job <= 0 || d.job >= int64(j.ID) || on == nil || jobIn(on).job == nil || c.unreadable[paths.ArchivePath(d.job)] {
				continue
			}
			if w.Job(d.job) != nil { // power was lost while it was archived: it is in both places, and its end is recorded when it is archived
				continue
			}
			if err := requireRecord(w, int64(j.ID), d.job, jobIn(on).job.Status()); err != nil {
				return err
			}
		}
	}
	return nil
}

// noOrphans checks that each record lies beside its job.
func (c *checkRecords) noOrphans(w *World) error {
	for _, name := range w.disk.Names(paths.QueueDir) {
		if id, is := paths.ParseRecordName(name); is && len(c.unreadable) == 0 && w.disk.Find(paths.JobPath(id)) == nil {
			return fmt.Errorf("the record of job %d is there, and the job is not", id)
		}
	}
	return nil
}

func dependsOn(j *job.Job, on int64) bool {
	for i := range j.Ops {
		if slices.ContainsFunc(dependenciesOf(j.Ops[i].Input), func(d dependency) bool { return d.job == on }) {
			return on < int64(j.ID)
		}
	}
	return false
}

func requireRecord(w *World, id, on int64, status job.Status) error {
	content, _ := w.disk.Surviving(paths.RecordPath(id))
	r, err := record.Decode(content)
	if end, known := r.DependencyEnd(on); err != nil || !known || end != status {
		return fmt.Errorf(
			"job %d depends on job %d, which is archived: power loss, or another master, would leave no record that it ended with %s",
			id,
			on,
			status,
		)
	}
	return nil
}
