package replication

import "lockstep/core/job"

// Progress is the progress of a job as a number. It never decreases while the job process works, because statuses only
// move along their table.
func Progress(j *job.Job) int {
	total := 0
	for i := range j.Ops {
		total += int(statusRank[j.Ops[i].Status])
	}
	return total
}

// statusRank orders the statuses of an opcode.
var statusRank = map[job.Status]uint8{
	job.Queued:    0,
	job.Waiting:   1,
	job.Running:   2,
	job.Canceling: 3,
	job.Canceled:  4,
	job.Success:   4,
	job.Error:     4,
}
