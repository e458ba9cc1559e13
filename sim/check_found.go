package sim

import (
	"encoding/json"
	"fmt"
	"time"

	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// jobRead: a client has asked for a job by one door, and has an answer that says whether the job exists.
type jobRead struct {
	door         string
	id           int64
	sent         time.Time
	acknowledged bool // before the question
	found        bool
	node         *node // that has answered
}

// checkFound: who asks for an acknowledged job that is in the queue, or in the archive of the node that answers, finds it, whatever happens
// to the job meanwhile. A file that was replaced from outside, or that a failing disk does not give, is no job. Neither is one in the
// archive that has lost its content with the power, if the node has then copied a snapshot, which has no archive.
type checkFound struct {
	garbled map[int64]bool
	failed  time.Time // the last failure of a disk
}

func (*checkFound) Name() string { return "jobs are found" }

func (c *checkFound) See(w *World, event any) error {
	switch e := event.(type) {
	case garbled:
		if c.garbled == nil {
			c.garbled = map[int64]bool{}
		}
		c.garbled[e.id] = true
	case diskFailed:
		c.failed = w.clock.Now()
	case jobRead:
		// In a cluster a job is acknowledged before the master's disk has it, and a node that has copied a snapshot lacks the archive.
		exists := w.disk.Find(paths.JobPath(e.id)) != nil || isJob(e.node.disk.Find(paths.ArchivePath(e.id)), e.id)
		if e.acknowledged && !e.found && exists && !c.garbled[e.id] && c.failed.Before(e.sent) {
			return fmt.Errorf("%s of job %d, which exists: is told that there is no such job", e.door, e.id)
		}
	}
	return nil
}

// isJob reports whether a file has the content of a job with that id.
func isJob(f *simdisk.File, id int64) bool {
	var content struct{ ID int64 }
	return f != nil && json.Unmarshal(f.Data, &content) == nil && content.ID == id
}
