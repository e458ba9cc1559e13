package sim

import (
	"lockstep/core/job"
	"lockstep/sim/simdisk"
)

// parsedJob is what a job's file says.
type parsedJob struct {
	job *job.Job // nil: it is not a job
	err error    // why not
	tag string   // of the job
}

func parseJob(data []byte) *parsedJob {
	j, err := job.Decode(data)
	if err != nil {
		return &parsedJob{err: err}
	}
	return &parsedJob{job: j, tag: tagOfJob(j)}
}

// jobIn is what a file on a disk says, parsed once. It must not be changed.
func jobIn(f *simdisk.File) *parsedJob {
	return f.Memo(func(data []byte) any { return parseJob(data) }).(*parsedJob)
}

func tagOfJob(j *job.Job) string {
	if len(j.Ops) == 0 {
		return ""
	}
	return tagOf(j.Ops[0].Input)
}
