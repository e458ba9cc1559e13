package queue

import (
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
)

// groupCommit is the commit of a group of submissions (design.md "Submission"): the job
// files are written in parallel, the directory is synced once, then the serial is
// written, which is the commit record. If a step fails, the files without a commit
// record are removed, so that no later serial turns them into jobs.
//
// It decides the steps; the queue performs each and passes the result to next. A crash
// at any point leaves all jobs up to the serial on the disk, and quarantines the files
// above it at the next start.
type groupCommit struct {
	// submissions are those that are not refused. Their jobs have rising ids without gaps.
	submissions []*submission
	// recorded is the serial on the disk. While phase is writingJobs, writingSerial or
	// rollingBack the serial on the disk may be a later one.
	recorded int64
	began    job.Timestamp // when its jobs were received
	// prepared is true when all jobs are built.
	prepared bool

	phase commitPhase
	// target is the serial that the write on its way makes durable; 0 if it makes none.
	target int64
	// written are the submissions whose files are on the disk, from takingBack on.
	written []*submission
	// cause is the failure because of which the group is rolled back or aborted.
	cause *messages.Failure
	// toRemove are the files that are removed when the schedules' files are as they were before.
	toRemove []string
}

// commitPhase names the step of a commit whose result is awaited.
type commitPhase uint8

const (
	writingJobs   commitPhase = iota // job files and, if no submission has failed, the serial
	restoring                        // the schedules' files of failed submissions, as they were before
	takingBack                       // removal of the other files of failed submissions
	writingSerial                    // the serial, for the submissions that have not failed
	rollingBack                      // the serial of before, since the new one may be on the disk
	abandoning                       // all schedules' files of the group, as they were before
	aborting                         // removal of all other files of the group
)

// commitStep is the next step of a commit: at most one field is set, none if the
// commit is over. Then failure says of each submission whether it is recorded.
type commitStep struct {
	write  *messages.WriteFiles
	remove *messages.RemoveFiles
	// crash is the last failure of a group that can be neither recorded nor taken back.
	// The queue must restart and read the disk before it writes another serial.
	crash *messages.Failure
}

// start is the first step of a commit: the write of the job files, and of the serial after them. It is called once, when the filter rules
// have been evaluated.
func (c *groupCommit) start() commitStep {
	write := &messages.WriteFiles{Durable: true, Logged: true}
	last, complete := int64(0), true
	for _, s := range c.submissions {
		complete = complete && s.failure == nil
		for i, j := range s.jobs {
			last = int64(j.ID)
			write.Files = append(write.Files, &messages.FileWrite{Op: "submit-job", Path: paths.JobPath(last), Content: s.encoded[i]})
			if !s.records[i].Empty() {
				write.Files = append(write.Files, recordFile("submit-record", last, s.records[i]))
			}
		}
		if f := s.firingFile(); f != nil {
			write.Files = append(write.Files, f)
		}
	}
	if complete { // otherwise some files are removed before a serial is written
		// The store writes the serial when the files are durable, and then only if none has failed.
		c.target, write.CommitRecord = last, serialFile(last)
	}
	return commitStep{write: write}
}

// next takes the failures of the step before and returns the next step; the empty step: the commit has ended. repeated says that the
// store has restarted meanwhile, so that the step may have been performed twice.
func (c *groupCommit) next(failures []*messages.FileFailure, repeated bool) commitStep {
	var failure *messages.Failure
	if len(failures) > 0 {
		failure = failures[0].Failure
	}
	switch c.phase {
	case writingJobs:
		// The first of two performances may have reached the serial.
		serialWritten := failure != nil && (failures[0].Path == paths.SerialPath || repeated)
		switch {
		case c.target != 0 && serialWritten:
			return c.rollBack(failure)
		case c.target == 0 || failure != nil:
			return c.takeBack(failures)
		}
	case restoring:
		if failure != nil {
			return c.abort(failure)
		}
		return c.remove(takingBack)
	case takingBack:
		if failure != nil {
			return c.abort(failure)
		}
		return c.writeSerial()
	case writingSerial:
		if failure != nil {
			return c.rollBack(failure)
		}
	case rollingBack:
		if failure != nil {
			return c.crash(failure)
		}
		return c.abort(c.cause)
	case abandoning:
		if failure != nil {
			return c.crash(failure)
		}
		return c.remove(aborting)
	case aborting:
		if failure != nil {
			return c.crash(failure)
		}
		return commitStep{}
	}
	// The serial is on the disk: the jobs up to it exist from here on, whatever crashes.
	c.recorded = c.target
	return commitStep{}
}

// takeBack fails the submissions that are not completely on the disk, and removes their files. Then the serial is written for the others.
func (c *groupCommit) takeBack(failures []*messages.FileFailure) commitStep {
	failed := make(map[string]*messages.Failure, len(failures))
	for _, f := range failures {
		failed[f.Path] = f.Failure
	}
	var restore []*messages.FileWrite
	for _, s := range c.submissions {
		if s.firing != nil && s.failure == nil {
			s.failure = failed[paths.SchedulePath(s.firing.Schedule)]
		}
		for _, j := range s.jobs {
			for _, file := range []string{paths.JobPath(int64(j.ID)), paths.RecordPath(int64(j.ID))} {
				if f := failed[file]; f != nil && s.failure == nil {
					s.failure = f
				}
			}
		}
		if s.failure == nil {
			c.written = append(c.written, s)
		} else {
			c.toRemove = append(c.toRemove, s.paths()...)
			restore = appendFormer(restore, s)
		}
	}
	if c.toRemove == nil {
		return c.writeSerial()
	}
	return c.restore(restoring, restore, takingBack)
}

// restore is the step that restores schedules' files, in a phase, or the removal of files in the phase after it, if there are none.
func (c *groupCommit) restore(phase commitPhase, files []*messages.FileWrite, after commitPhase) commitStep {
	if len(files) == 0 {
		return c.remove(after)
	}
	c.phase = phase
	return commitStep{write: &messages.WriteFiles{Files: files, Durable: true, Logged: true}}
}

// remove is the step that removes the files that were written, in a phase.
func (c *groupCommit) remove(phase commitPhase) commitStep {
	c.phase = phase
	return commitStep{remove: &messages.RemoveFiles{Op: "take-back", Paths: c.toRemove}}
}

// appendFormer adds the schedule's file of a submission as it was before, if it has one.
func appendFormer(files []*messages.FileWrite, s *submission) []*messages.FileWrite {
	if f := s.formerFile(); f != nil {
		files = append(files, f)
	}
	return files
}

func (c *groupCommit) writeSerial() commitStep {
	if len(c.written) == 0 {
		return commitStep{}
	}
	// The files of failed submissions are removed by now. Left on the disk, those below this serial would become jobs.
	c.phase, c.target = writingSerial, c.written[len(c.written)-1].lastID()
	return commitStep{write: writeSerialFile(c.target)}
}

// rollBack restores the serial of before, and only then removes the jobs: a crash
// during the removal must not leave some of them as jobs.
func (c *groupCommit) rollBack(cause *messages.Failure) commitStep {
	c.phase, c.cause = rollingBack, cause
	return commitStep{write: writeSerialFile(c.recorded)}
}

// abort removes all files of a group whose serial is not on the disk. A file that
// stayed would become a job with the next serial.
func (c *groupCommit) abort(cause *messages.Failure) commitStep {
	c.cause, c.toRemove = cause, nil
	var former []*messages.FileWrite
	for _, s := range c.submissions {
		if s.failure == nil {
			s.failure = cause
		}
		c.toRemove = append(c.toRemove, s.paths()...)
		former = appendFormer(former, s)
	}
	return c.restore(abandoning, former, aborting)
}

func (c *groupCommit) crash(last *messages.Failure) commitStep {
	for _, s := range c.submissions {
		s.failure = &messages.Failure{Class: c.cause.Class,
			Text: c.cause.Text + "; it could not be taken back either, so look at the list of jobs before you send it again"}
	}
	return commitStep{crash: last}
}

func serialFile(serial int64) *messages.FileWrite {
	return &messages.FileWrite{Op: "serial", Path: paths.SerialPath, Content: paths.FormatSerial(serial)}
}

func writeSerialFile(serial int64) *messages.WriteFiles {
	return &messages.WriteFiles{Files: []*messages.FileWrite{serialFile(serial)}, Durable: true, Logged: true}
}
