package sim

import (
	"fmt"
	"strings"

	"lockstep/core/job"
	"lockstep/sim/simdisk"
)

// parsedJob is the decoded content of a job's file.
type parsedJob struct {
	job *job.Job // nil: the file is no job
	err error    // why it is no job
	tag string   // of the job
}

func parseJob(data []byte) *parsedJob {
	j, err := job.Decode(data)
	if err != nil {
		return &parsedJob{err: err}
	}
	return &parsedJob{job: j, tag: tagIn(tagOfJob(j), int64(j.ID))}
}

// jobIn decodes a file on a disk, once. The result must not be changed.
func jobIn(f *simdisk.File) *parsedJob {
	return f.Memo(func(data []byte) any { return parseJob(data) }).(*parsedJob)
}

// tagIn is the tag of a job whose opcodes have a tag. The jobs of a schedule have the same opcodes.
func tagIn(tag string, id int64) string {
	if strings.HasPrefix(tag, scheduleTag) {
		return fmt.Sprintf("%s job %d", tag, id)
	}
	return tag
}

func tagOfJob(j *job.Job) string {
	if len(j.Ops) == 0 {
		return ""
	}
	return tagOf(j.Ops[0].Input)
}
