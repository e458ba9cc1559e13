package jobfile

import (
	"regexp"
	"strconv"

	"lockstep/cmd/internal/doctree"
)

// The daemon's errors about a submission name the parameter, and the opcode and the job if there are several (protocol.md).
var (
	refusedParam = regexp.MustCompile(`(?:Can't parse value for|key) '([^']+)'`)
	refusedOp    = regexp.MustCompile(`, in opcode ([0-9]+) of [0-9]+(?:,|$)`)
	refusedJob   = regexp.MustCompile(`(?:, in|SubmitJobs:) job ([0-9]+) of [0-9]+(?::|$)`)
)

// Place returns the daemon's error about the submission, with the place of the job, opcode or parameter that text names: a
// *doctree.Error. Without such a place it returns err.
func (s Submission) Place(text string, err error) error {
	job, ok := at(s.Jobs, refusedJob, text)
	if !ok {
		return err
	}
	place := job.At
	if op, ok := at(job.ops, refusedOp, text); ok {
		if place = op.At; job.depends != nil && op.At == job.ops[0].At {
			op = op.With("depends", *job.depends)
		}
		if param := refusedParam.FindStringSubmatch(text); param != nil {
			if value, given := op.Field(param[1]); given {
				place = value.At
			}
		}
	}
	return doctree.Errorf(place, "%v", err)
}

// at is the element with the number, from 1, that the expression finds in text, or the only element.
func at[T any](list []T, number *regexp.Regexp, text string) (element T, ok bool) {
	found := number.FindStringSubmatch(text)
	if found == nil {
		if len(list) == 1 {
			return list[0], true
		}
		return element, false
	}
	n, err := strconv.Atoi(found[1])
	if err != nil || n < 1 || n > len(list) {
		return element, false
	}
	return list[n-1], true
}
