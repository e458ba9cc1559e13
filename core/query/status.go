package query

import (
	"lockstep/core/job"
	"lockstep/messages"
)

// StatusOf is the status of a job, which messages carry as a number.
func StatusOf(info *messages.JobInfo) job.Status { return job.Status(info.GetStatus()) }
