package queue

import (
	"encoding/json"
	"errors"
	"fmt"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/opcode"
)

// launchSpecs is what the process of a job is handed through the start pipe (queue.md
// 4.5, step 5; design.md 1): what is not in the job's file, because it must
// not be or because only the daemon can work it out.
func (q *queue) launchSpecs(id int64, encoded []byte) []byte {
	j, err := job.Decode(encoded)
	if err != nil {
		panic(fmt.Errorf("job %d in memory is not a job: %w", id, err)) // it was decoded when it came in
	}
	specs := make([]*jobproc.LaunchSpec, len(j.Ops))
	for i := range j.Ops {
		var secrets json.RawMessage
		if secretsOfOps := q.secrets[id]; i < len(secretsOfOps) {
			secrets = secretsOfOps[i]
		}
		if spec := q.launchSpec(j.Ops[i].Input, secrets); spec.Secrets != nil || spec.Command != nil || spec.FailureResult != nil || spec.RequiredLocks.NotEmpty() {
			specs[i] = &spec
		}
	}
	data, err := json.Marshal(specs)
	if err != nil {
		panic(fmt.Errorf("what job %d is to be handed cannot be encoded: %w", id, err))
	}
	return data
}

func (q *queue) launchSpec(input, secrets json.RawMessage) jobproc.LaunchSpec {
	needs, err := q.config.Catalogue.RequiredLocks(input, q.resources)
	spec := jobproc.LaunchSpec{Secrets: secrets, RequiredLocks: needs}
	if op, known := q.config.Catalogue.Lookup(job.OpID(input)); err == nil && known && op.Defined() {
		spec.Secrets = nil // they are in the command
		var command opcode.Command
		if command, err = q.config.Catalogue.Expand(input, secrets); err == nil {
			spec.Command, err = json.Marshal(command)
		}
	}
	if err != nil {
		return jobproc.LaunchSpec{FailureResult: errorResult(err)}
	}
	return spec
}

func errorResult(err error) json.RawMessage {
	var f *opcode.Failure
	switch {
	case !errors.As(err, &f):
		return job.ErrorResult("OpExecError", err.Error())
	case f.Code != "":
		return job.ErrorResult(f.Class, f.Text, f.Code)
	default:
		return job.ErrorResult(f.Class, f.Text)
	}
}
