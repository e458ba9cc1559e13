package sim

import (
	"fmt"
	"strings"
	"time"

	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/core/paths"
)

// checkRetention: a job is archived only when it has ended. Without a client's request it is archived only if the settings
// in force say so: it has ended long enough ago, and keep_last later jobs of its name have ended, archived ones included.
// In the end each job is in the queue or in the archive, and no job is left that was due two minutes before. It is in both only if a
// power loss has undone a part of its move that was not durable yet.
// The record of the ends for dependents is checked by checkRecords.
type checkRetention struct {
	names      map[string]string // by tag of the job, of all submissions that were sent
	asked      map[int64]bool    // jobs that a client has asked to archive, or whose archiving has begun and failed
	halves     map[int64]bool    // jobs that a power loss has left in the queue and in the archive
	generation int               // of the known settings
	since      time.Time         // of the last new settings, start of a daemon, or failure of a disk
}

// retentionSlack is the time within which a due job is archived if nothing fails.
const retentionSlack = 2 * time.Minute

// mayBeRepeated is the time after its submission for which a job of a named submission stays in the queue in any case.
const mayBeRepeated = 10 * time.Minute

func (*checkRetention) Name() string { return "retention" }

func (c *checkRetention) See(w *World, event any) error {
	if c.asked == nil {
		c.names, c.asked, c.halves = map[string]string{}, map[int64]bool{}, map[int64]bool{}
	}
	if w.effective.generation != c.generation {
		c.generation, c.since = w.effective.generation, w.clock.Now()
	}
	switch e := event.(type) {
	case submissionSent:
		for i := range e.submission.jobs {
			c.names[e.submission.tag(i)] = e.submission.name(i)
		}
	case archiveSent:
		c.asked[e.id] = true
	case fileChanged:
		if e.job == nil && !w.garbled && w.disk.Find(paths.ArchivePath(e.id)) != nil {
			return c.archived(w, e.id)
		}
	case diskFailed:
		c.since = w.clock.Now()
		c.failed(w, e.path)
	case powerLost:
		for _, id := range w.recordedIDs() {
			if w.disk.Find(paths.ArchivePath(id)) != nil {
				c.halves[id] = true
			}
		}
	case daemonStarted, deciderStarted, panicked:
		c.since = w.clock.Now()
	case finished:
		return c.rest(w)
	}
	return nil
}

// failed records an operation on a file that has failed. If the job was due, it was perhaps archived: the daemon cannot know where
// the file is, and archives it later, whatever the settings say then.
func (c *checkRetention) failed(w *World, path string) {
	for _, id := range w.recordedIDs() {
		if path == paths.JobPath(id) && c.archived(w, id) == nil {
			c.asked[id] = true
		}
	}
}

func (c *checkRetention) archived(w *World, id int64) error {
	j := w.Job(id)
	if j == nil || !j.Status().Final() {
		return fmt.Errorf("job %d was archived, and has not ended", id)
	}
	s := w.effective.settings
	if c.asked[id] || !w.effective.known {
		return nil
	}
	if age := w.clock.Now().Sub(endOf(j)); s.ArchiveAfter(0) == 0 || age < s.ArchiveAfter(0) {
		return fmt.Errorf("job %d was archived %v after its end, and archive_after is %v", id, age, s.ArchiveAfter(0))
	}
	if name := c.nameOf(w.tagOf(id)); c.isKept(w, j, name, s, false) {
		return fmt.Errorf("job %d was archived, and is one of the last %d of the name %q", id, s.KeepLast, name)
	}
	return nil
}

// isKept reports whether an ended job is one of the last keep_last ended jobs of its name. Jobs in the archive count
// unless only the queue is asked.
func (c *checkRetention) isKept(w *World, j *job.Job, name string, s config.Settings, queueOnly bool) bool {
	if name == "" || s.KeepLast == 0 {
		return false
	}
	later := 0
	for id := int64(1); id <= w.serial(); id++ {
		other := w.Job(id)
		if other == nil || !other.Status().Final() || c.nameOf(w.tagOf(id)) != name || queueOnly && w.disk.Find(paths.JobPath(id)) == nil {
			continue
		}
		if at, ended := endOf(other), endOf(j); at.After(ended) || at.Equal(ended) && other.ID > j.ID {
			later++
		}
	}
	return later < s.KeepLast
}

func (c *checkRetention) rest(w *World) error {
	s, now := w.effective.settings, w.clock.Now()
	settled := w.effective.known && s.ArchiveAfter(0) > 0 && now.Sub(c.since) > retentionSlack && !w.garbled
	for _, id := range w.recordedIDs() {
		if w.disk.Find(paths.ArchivePath(id)) != nil && !c.halves[id] {
			return fmt.Errorf("job %d is in the queue and in the archive", id)
		}
		j := w.Job(id)
		if !settled || j == nil || !j.Status().Final() {
			continue
		}
		if now.Sub(endOf(j)) < s.ArchiveAfter(0)+retentionSlack || now.Sub(j.Received.Time()) < mayBeRepeated+retentionSlack {
			continue
		}
		if !c.isKept(w, j, c.nameOf(w.tagOf(id)), s, true) {
			return fmt.Errorf("job %d ended %v ago, archive_after is %v, and it is not archived", id, now.Sub(endOf(j)), s.ArchiveAfter(0))
		}
	}
	return nil
}

// endOf is the time from which the age of an ended job counts. A job that was canceled before its start has only an end.
func endOf(j *job.Job) time.Time {
	if j.Start.Compare(j.End) > 0 {
		return j.Start.Time()
	}
	return j.End.Time()
}

// nameOf is the name of the job with a tag; "": it has none. The jobs of a schedule have its name.
func (c *checkRetention) nameOf(tag string) string {
	if rest, is := strings.CutPrefix(tag, scheduleTag); is {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	return c.names[tag]
}
