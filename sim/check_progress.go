package sim

import (
	"bytes"
	"fmt"

	"lockstep/core/answer"
	"lockstep/core/progress"
)

// checkProgress: progress that a client is shown was said by the command of the job's opcode that executes, or has ended last. What one
// client is shown never goes back within one command. An ended job has none. No file has what a command says.
type checkProgress struct {
	jobs map[int64]*progressOfJob
}

// progressOfJob is what the command of the latest opcode has said.
type progressOfJob struct {
	op     int
	began  uint64          // step of the world at which the opcode began
	said   []progress.Line // in order
	shown  map[*client]int // number of lines up to the one that a client was shown last
	former bool            // commands of earlier opcodes have said something
}

func (*checkProgress) Name() string { return "progress" }

func (c *checkProgress) See(w *World, event any) error {
	switch e := event.(type) {
	case progressSaid:
		if c.jobs == nil {
			c.jobs = map[int64]*progressOfJob{}
		}
		j := c.jobs[e.process.job]
		if j == nil || j.op != e.op {
			j = &progressOfJob{op: e.op, began: w.stepCount, shown: map[*client]int{}, former: j != nil}
			c.jobs[e.process.job] = j
		}
		j.said = append(j.said, e.line)
	case opcodeStarted:
		if j := c.jobs[e.job]; j != nil {
			c.jobs[e.job] = &progressOfJob{op: e.op, began: w.stepCount, shown: map[*client]int{}, former: true}
		}
	case progressShown:
		return c.shown(e)
	case fileChanged:
		if len(c.jobs) > 0 && bytes.Contains(e.content, []byte(progressMark)) {
			return fmt.Errorf("the file of job %d has what its command says of its progress", e.id)
		}
	case otherFileChanged:
		if len(c.jobs) == 0 {
			return nil
		}
		if f := e.disk.Find(e.path); f != nil && bytes.Contains(f.Data, []byte(progressMark)) {
			return fmt.Errorf("%s has what a command says of its progress", e.path)
		}
	}
	return nil
}

func (c *checkProgress) shown(e progressShown) error {
	p := e.job.Progress
	switch {
	case p == nil:
		return nil
	case isEnd(e.job):
		return fmt.Errorf("job %d is shown as %s, with progress: %s", e.job.ID, e.job.Status, p.Text)
	}
	j := c.jobs[e.job.ID]
	if j == nil {
		return fmt.Errorf("job %d is shown with progress that no command has said: %s", e.job.ID, p.Text)
	}
	for i, line := range j.said {
		if line.Text != p.Text {
			continue
		}
		if before := j.shown[e.client]; i+1 < before {
			return fmt.Errorf("client %d is shown progress of job %d that goes back: %s after %s",
				e.client.number, e.job.ID, p.Text, j.said[before-1].Text)
		}
		j.shown[e.client] = i + 1
		return nil
	}
	if j.former && e.asked < j.began {
		return nil // of an opcode that has ended since
	}
	return fmt.Errorf("job %d is shown with progress that the command of opcode %d has not said: %s", e.job.ID, j.op, p.Text)
}

func isEnd(job answer.ListedJob) bool {
	return job.Status == "success" || job.Status == "error" || job.Status == "canceled"
}
